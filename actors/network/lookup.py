"""A bounded cache in front of a batched look-up: misses that arrive during one fetch share the next one.

It caches values only, no misses. Values must be immutable, since entries cannot be invalidated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from actors.essential import start_essential
from engine.limits import LOOKUP_BATCH_MAX

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lookup(Generic[Key, Value]):
    """``fetch`` gets up to ``LOOKUP_BATCH_MAX`` keys and returns the values that exist. Its exception is
    raised in all callers that wait for one of these keys."""

    def __init__(self, fetch: Callable[[list[Key]], Awaitable[Mapping[Key, Value]]], capacity: int) -> None:
        self._fetch = fetch
        self._capacity = capacity
        self._cache: OrderedDict[Key, Value] = OrderedDict()
        self._waiting: dict[Key, asyncio.Future[Value | None]] = {}
        self._in_flight: dict[Key, asyncio.Future[Value | None]] = {}
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._cache)

    def cached(self, key: Key) -> Value | None:
        """The value, if it is in the cache."""
        value = self._cache.get(key)
        if value is not None:
            self._cache.move_to_end(key)
        return value

    async def find(self, key: Key) -> Value | None:
        """The value, from the cache or fetched; ``None`` if it does not exist."""
        return (await self.find_all((key,)))[0]

    async def find_all(self, keys: Iterable[Key]) -> list[Value | None]:
        """The values of ``keys``, in their order."""
        found = [self.cached(key) or self._ask(key) for key in keys]
        # Shielded, because other callers may wait for the same future. Each future is awaited, because each
        # may hold an exception.
        return [
            await asyncio.shield(value) if isinstance(value, asyncio.Future) else value for value in found
        ]

    def _ask(self, key: Key) -> asyncio.Future[Value | None]:
        """The future that all current callers share for ``key``."""
        future = self._waiting.get(key) or self._in_flight.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
            if self._worker is None:
                self._worker = start_essential(self._work(), "look-up")
        return future

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._look_up()
        finally:
            self._worker = None

    async def _look_up(self) -> None:
        keys = list(self._waiting)[:LOOKUP_BATCH_MAX]
        in_flight = self._in_flight = {key: self._waiting.pop(key) for key in keys}
        try:
            values = await self._fetch(keys)
        except Exception as failure:  # noqa: BLE001 - raised in the waiting callers
            for future in in_flight.values():
                future.set_exception(failure)
        else:
            for key, future in in_flight.items():
                value = values.get(key)
                if value is not None:
                    self._remember(key, value)
                future.set_result(value)
        finally:
            self._in_flight = {}

    def _remember(self, key: Key, value: Value) -> None:
        self._cache[key] = value
        if len(self._cache) > self._capacity:
            self._cache.popitem(last=False)


def _retrieve(future: asyncio.Future[Value | None]) -> None:
    """Retrieve the exception, so asyncio does not log it: the callers may have been cancelled."""
    if not future.cancelled():
        future.exception()
