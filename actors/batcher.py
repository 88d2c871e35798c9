"""Self-clocked batches: items that arrive while one batch is being processed form the next batch.

There is no timer: an item that arrives alone is processed at once. A ``Batcher`` writes, a ``Coalescer``
reads. Group commit (``actors.journal.group_commit``) has the same rhythm and its own queue, because commands
add their rows to the open batch as they are decided.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar, cast

import msgspec

from actors.essential import start_essential

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")

KEYS_MAX: Final = 512
"""Keys in one read of a ``Coalescer``."""


class Batcher(Generic[Item]):
    """Calls ``flush`` with items in the order of their arrival, one call at a time.

    A call gets whole additions until it has ``batch_max`` items or more. With ``item_pause_seconds``, the
    batcher pauses after each call, so calls become fewer and larger with the load: that long for each item
    of the call, at most ``pause_seconds_max``. It does not pause while a full batch waits. An item that
    arrives alone is processed at once.
    """

    def __init__(
        self,
        flush: Callable[[list[Item]], Awaitable[None]],
        batch_max: int,
        *,
        item_pause_seconds: float = 0.0,
        pause_seconds_max: float = math.inf,
    ) -> None:
        self._flush = flush
        self._batch_max = batch_max
        self._item_pause_seconds = item_pause_seconds
        self._pause_seconds_max = pause_seconds_max
        self._waiting: list[tuple[Sequence[Item], asyncio.Future[None]]] = []
        self._worker: asyncio.Task[None] | None = None

    def add(self, items: Sequence[Item]) -> asyncio.Future[None]:
        """Queue ``items``. The future ends with their batch, and raises its exception."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if self._worker is None:
            self._worker = start_essential(self._work(), "batcher")
        return future

    async def drain(self) -> None:
        """Wait until no item is queued or being processed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._waiting:
                items, futures = self._take()
                try:
                    await self._flush(items)
                except Exception as failure:  # noqa: BLE001 - callers of the batch get its exception
                    for future in futures:
                        if not future.done():
                            future.set_exception(failure)
                            # Mark it as retrieved: some callers do not await their future.
                            future.exception()
                else:
                    for future in futures:
                        if not future.done():
                            future.set_result(None)
                if self._item_pause_seconds and not self._is_full():
                    await asyncio.sleep(min(self._pause_seconds_max, self._item_pause_seconds * len(items)))
        finally:
            self._worker = None

    def _is_full(self) -> bool:
        return sum(len(items) for items, _ in self._waiting) >= self._batch_max

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


class _Lookup(msgspec.Struct, Generic[Key, Value]):
    key: Key
    value: Value | None = None


class Coalescer(Generic[Key, Value]):
    """Reads the values of single keys in batches. ``read`` returns the values in the order of its keys.

    A value is never older than its ``get``: a read contains only keys requested before it began.
    """

    def __init__(self, read: Callable[[Sequence[Key]], Awaitable[Sequence[Value]]]) -> None:
        self._read = read
        self._lookups: Batcher[_Lookup[Key, Value]] = Batcher(self._read_batch, KEYS_MAX)

    async def get(self, key: Key) -> Value:
        """The value of ``key``. Raises the exception of the batch's ``read``."""
        lookup: _Lookup[Key, Value] = _Lookup(key)
        await self._lookups.add((lookup,))
        return cast(Value, lookup.value)

    async def _read_batch(self, lookups: list[_Lookup[Key, Value]]) -> None:
        values = await self._read([lookup.key for lookup in lookups])
        for lookup, value in zip(lookups, values, strict=True):
            lookup.value = value
