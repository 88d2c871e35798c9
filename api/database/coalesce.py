<<<<<<< HEAD
"""Many single look-ups in few statements."""
=======
"""Batching of single look-ups: look-ups that arrive while a statement runs share the next statement.

There is no timer, and a look-up does not wait while no statement runs. A value is never older than its
look-up, because a statement serves only look-ups that arrived before it began.
"""
>>>>>>> w/api

from __future__ import annotations

from actors.batcher import KEYS_MAX as BATCH_MAX
from actors.batcher import Coalescer

<<<<<<< HEAD
__all__ = ["BATCH_MAX", "Coalescer"]
=======
K = TypeVar("K")
V = TypeVar("V")

BATCH_MAX: Final = 512


class Coalescer(Generic[K, V]):
    """``read`` takes keys and returns their values in the same order."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        self._read = read
        self._asked: list[tuple[K, asyncio.Future[V]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V:
        """The value of ``key``. Raises what ``read`` raised for the batch."""
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._asked.append((key, answer))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name="coalescer")
        return await answer

    async def _read_all(self) -> None:
        try:
            while self._asked:
                batch, self._asked = self._asked[:BATCH_MAX], self._asked[BATCH_MAX:]
                await self._read_batch(batch)
        finally:
            self._reading = None

    async def _read_batch(self, batch: list[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            values = await self._read([key for key, _ in batch])
        except Exception as failure:  # noqa: BLE001 -- every failure is passed on to the callers
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(failure)
            return
        for (_, answer), value in zip(batch, values, strict=True):
            if not answer.done():
                answer.set_result(value)
>>>>>>> w/api
