"""Shared look-ups: few statements, everyone's own answer, and an answer never older than its question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from actors.batcher import KEYS_MAX, Coalescer


class Reader:
    """Doubles numbers in batches; a batch ends when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Semaphore(0)

    async def read(self, keys: Sequence[int]) -> list[int]:
        self.batches.append(list(keys))
        await self.gate.acquire()
        if -1 in keys:
            raise ValueError("no such number")
        return [2 * key for key in keys]


async def test_keys_requested_during_a_read_share_the_next_read() -> None:
    reader = Reader()
    coalescer = Coalescer(reader.read)
    first = asyncio.create_task(coalescer.get(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.create_task(coalescer.get(number)) for number in (2, 3, 2)]
    await asyncio.sleep(0)
    assert reader.batches == [[1]]
    reader.gate.release()
    assert await first == 2
    reader.gate.release()
    assert await asyncio.gather(*later) == [4, 6, 4]
    assert reader.batches == [[1], [2, 3, 2]]


async def test_failed_read_fails_its_callers_and_no_later_ones() -> None:
    reader = Reader()
    coalescer = Coalescer(reader.read)
    asked = [asyncio.create_task(coalescer.get(number)) for number in (1, -1)]
    reader.gate.release()
    for task in asked:
        with pytest.raises(ValueError, match="no such number"):
            await task
    reader.gate.release()
    assert await coalescer.get(5) == 10


async def test_cancelled_caller_does_not_affect_the_others() -> None:
    reader = Reader()
    coalescer = Coalescer(reader.read)
    leaving, staying = asyncio.create_task(coalescer.get(1)), asyncio.create_task(coalescer.get(2))
    await asyncio.sleep(0)
    leaving.cancel()
    reader.gate.release()
    assert await staying == 4


async def test_batches_are_bounded() -> None:
    reader = Reader()
    coalescer = Coalescer(reader.read)
    for _ in range(2):
        reader.gate.release()
    count = KEYS_MAX + 1
    assert await asyncio.gather(*(coalescer.get(number) for number in range(count))) == [
        2 * number for number in range(count)
    ]
    assert [len(batch) for batch in reader.batches] == [KEYS_MAX, 1]
