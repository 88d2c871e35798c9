"""Self-clocked batches: one in flight, order is kept, exceptions reach the callers of their batch."""

from __future__ import annotations

import asyncio

import pytest

from actors.batcher import Batcher

pytestmark = pytest.mark.virtual_time


class Sink:
    """Records batches. Each batch waits for ``go``."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Semaphore(0)
        self.failing = False

    async def flush(self, items: list[int]) -> None:
        self.batches.append(items)
        await self.go.acquire()
        if self.failing:
            raise LookupError

    def release(self, count: int = 100) -> None:
        for _ in range(count):
            self.go.release()


async def test_items_added_during_a_batch_form_the_next_batch() -> None:
    sink = Sink()
    batcher = Batcher(sink.flush, 100)
    first = batcher.add([1])
    await asyncio.sleep(0)
    later = [batcher.add([2, 3]), batcher.add([4])]
    assert sink.batches == [[1]]
    sink.release()
    await asyncio.gather(first, *later)
    assert sink.batches == [[1], [2, 3, 4]]


async def test_batch_has_whole_additions_up_to_its_size() -> None:
    sink = Sink()
    sink.release()
    batcher = Batcher(sink.flush, 3)
    await asyncio.gather(*(batcher.add([number, number]) for number in range(4)))
    assert sink.batches == [[0, 0, 1, 1], [2, 2, 3, 3]]


async def test_batcher_rests_after_each_batch() -> None:
    sink = Sink()
    sink.release()
    batcher = Batcher(sink.flush, 100, item_pause_seconds=0.05)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await batcher.add([1])
    assert loop.time() - began < 0.05, "an addition alone does not wait"
    later = batcher.add([2])
    await asyncio.sleep(0)
    await asyncio.gather(later, batcher.add([3]))
    assert sink.batches == [[1], [2, 3]]
    assert loop.time() - began >= 0.05
    await batcher.drain()


async def paused(count: int, batch_max: int = 100) -> list[float]:
    """The pauses of a batcher after one batch of ``count`` items, while two more items wait."""
    sink, pauses = Sink(), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    batcher = Batcher(sink.flush, batch_max, item_pause_seconds=0.01, pause_seconds_max=0.1)
    with pytest.MonkeyPatch.context() as patch:
        first = batcher.add(list(range(count)))
        await asyncio.sleep(0)
        later = batcher.add([1, 2])
        patch.setattr(asyncio, "sleep", sleep)
        sink.release()
        await asyncio.gather(first, later)
        await batcher.drain()
    return pauses


async def test_pause_grows_with_the_batch_up_to_its_maximum() -> None:
    assert await paused(3) == [pytest.approx(0.03), pytest.approx(0.02)]
    assert await paused(50) == [0.1, pytest.approx(0.02)]


async def test_batcher_does_not_pause_while_a_full_batch_waits() -> None:
    assert await paused(3, batch_max=2) == [pytest.approx(0.02)]


async def test_exception_reaches_only_its_own_batch() -> None:
    sink = Sink()
    batcher = Batcher(sink.flush, 100)
    sink.failing = True
    failing = batcher.add([1])
    await asyncio.sleep(0)
    after = batcher.add([2])
    sink.release(1)
    with pytest.raises(LookupError):
        await failing
    sink.failing = False
    sink.release()
    await after
    await batcher.drain()


async def test_batch_needs_no_waiting_caller() -> None:
    sink = Sink()
    sink.failing = True
    batcher = Batcher(sink.flush, 100)
    batcher.add([1]).cancel()
    batcher.add([2])
    sink.release()
    await batcher.drain()
    await batcher.drain()
    assert sink.batches == [[1, 2]]
