"""Measuring the lag of an event loop, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from actors.cluster.loop_lag import LoopLag
from actors.metrics import Distribution
from tests.support.actors.shards.virtual_time import VirtualLoop, run


async def measured(blocked_seconds: float) -> Distribution:
    """Measure three times; the loop is blocked for ``blocked_seconds`` before the third measurement."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(2.5)
    loop.advance(blocked_seconds)
    await asyncio.sleep(0.6)
    return lag.figure()


def test_lag_of_a_blocked_loop_is_measured() -> None:
    figure = run(measured(0.8))
    assert sum(figure.counts) == 3
    assert figure.total == pytest.approx(0.3)
    assert figure.counts[0] == 2, "the other two measurements show no lag"


def test_prompt_loop_has_no_lag() -> None:
    assert run(measured(0.0)).total == pytest.approx(0.0)
