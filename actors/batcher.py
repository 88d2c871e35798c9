"""A self-clocked batch: what arrives while one batch is in flight forms the next. Nothing waits for company,
unless whoever makes the batcher allows a rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from actors.essential import start_essential

Item = TypeVar("Item")


class Batcher(Generic[Item]):
    """Calls ``flush`` with items in the order of their arrival, one call at a time.

    A call takes whole additions until it has at least ``batch_max`` items. After one that took several, where
    more are to be expected, it rests for ``rest_seconds``, so that calls become fewer and larger.
    """

    def __init__(
        self, flush: Callable[[list[Item]], Awaitable[None]], batch_max: int, rest_seconds: float = 0.0
    ) -> None:
        self._flush = flush
        self._batch_max = batch_max
        self._rest_seconds = rest_seconds
        self._waiting: list[tuple[Sequence[Item], asyncio.Future[None]]] = []
        self._worker: asyncio.Task[None] | None = None

    def add(self, items: Sequence[Item]) -> asyncio.Future[None]:
        """Queues ``items``; the future is done when their batch is, and holds its error."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if self._worker is None:
            self._worker = start_essential(self._work(), "batcher")
        return future

    async def drain(self) -> None:
        """Waits until nothing is queued or in flight."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._waiting:
                items, futures = self._take()
                try:
                    await self._flush(items)
                except Exception as failure:  # noqa: BLE001 - whoever waits for the batch gets it, whatever it is
                    for future in futures:
                        if not future.done():
                            future.set_exception(failure)
                            # Seen: not everyone who adds something waits for it.
                            future.exception()
                else:
                    for future in futures:
                        if not future.done():
                            future.set_result(None)
                if self._rest_seconds and len(futures) > 1:
                    await asyncio.sleep(self._rest_seconds)
        finally:
            self._worker = None

    def _take(self) -> tuple[list[Item], list[asyncio.Future[None]]]:
        items: list[Item] = []
        futures = []
        for count, (added, future) in enumerate(self._waiting, start=1):
            items += added
            futures.append(future)
            if len(items) >= self._batch_max:
                del self._waiting[:count]
                return items, futures
        self._waiting.clear()
        return items, futures
