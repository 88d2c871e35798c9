"""The unrelated CPU load beside a benchmark works on request and pauses between bursts."""

from __future__ import annotations

import asyncio
import time

import pytest

from ops.bench import busy
from ops.bench.busy import BURST_SECONDS, Busy


@pytest.mark.parametrize(("share", "rest_seconds"), [(0.5, 0.004), (0.2, 0.016), (0.8, 0.001)])
async def test_it_pauses_according_to_its_share(
    monkeypatch: pytest.MonkeyPatch, share: float, rest_seconds: float
) -> None:
    rested: list[float] = []
    four = asyncio.Event()

    async def rest(seconds: float) -> None:
        rested.append(seconds)
        if len(rested) == 4:
            four.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(busy, "_rest", rest)
    stranger, used = Busy(), time.process_time()
    await stranger.start(share)
    await four.wait()
    assert time.process_time() - used >= 4 * BURST_SECONDS
    assert rested == pytest.approx([rest_seconds] * 4)
    await stranger.stop()
    await stranger.stop()


async def test_it_stops_on_request() -> None:
    stranger, before = Busy(), asyncio.all_tasks()
    await stranger.start(0.5)
    assert len(asyncio.all_tasks() - before) == 1
    await stranger.stop()
    assert asyncio.all_tasks() == before
