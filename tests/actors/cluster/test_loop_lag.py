"""A loop that was held up is seen to have been."""

from __future__ import annotations

import asyncio

import pytest

from actors.cluster.loop_lag import LoopLag
from actors.metrics import Distribution
from tests.actors.shards.virtual_time import VirtualLoop, run


async def held_up(seconds: float) -> Distribution:
    """What is seen of a loop whose third turn takes ``seconds``."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(2.5)
    loop._skipping.now += seconds
    await asyncio.sleep(0.6)
    return lag.figure()


def test_what_comes_late_is_seen() -> None:
    figure = run(held_up(0.8))
    assert sum(figure.counts) == 3
    assert figure.total == pytest.approx(0.3)
    assert figure.counts[0] == 2, "the others came in time"


def test_a_prompt_loop_has_no_lag() -> None:
    assert run(held_up(0.0)).total == pytest.approx(0.0)
