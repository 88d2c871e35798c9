"""A bounded cache in front of a batched look-up: misses that arrive while one is under way share the next
one.

Only what exists is remembered, and only what never changes may be looked up here: there is no way to
invalidate an entry.
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
    """``fetch`` gets up to ``LOOKUP_BATCH_MAX`` keys and returns those that exist; its errors reach all who
    wait for them."""

    def __init__(self, fetch: Callable[[list[Key]], Awaitable[Mapping[Key, Value]]], capacity: int) -> None:
        self._fetch = fetch
        self._capacity = capacity
        self._known: OrderedDict[Key, Value] = OrderedDict()
        self._waiting: dict[Key, asyncio.Future[Value | None]] = {}
        self._asked: dict[Key, asyncio.Future[Value | None]] = {}
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def known(self, key: Key) -> Value | None:
        """The value, if it is remembered."""
        value = self._known.get(key)
        if value is not None:
            self._known.move_to_end(key)
        return value

    async def find(self, key: Key) -> Value | None:
        """The value, looked up if need be; ``None`` when there is none."""
        return (await self.find_all((key,)))[0]

    async def find_all(self, keys: Iterable[Key]) -> list[Value | None]:
        """The values of ``keys``, in their order."""
        found = [self.known(key) or self._ask(key) for key in keys]
        # Shielded, because others may wait for the same future; each is awaited, because each may hold an
        # error.
        return [
            await asyncio.shield(value) if isinstance(value, asyncio.Future) else value for value in found
        ]

    def _ask(self, key: Key) -> asyncio.Future[Value | None]:
        """The one future of all who look for ``key`` now."""
        future = self._waiting.get(key) or self._asked.get(key)
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
        asked = self._asked = {key: self._waiting.pop(key) for key in keys}
        try:
            values = await self._fetch(keys)
        except Exception as failure:  # noqa: BLE001 - whoever waits gets it, whatever it is
            for future in asked.values():
                future.set_exception(failure)
        else:
            for key, future in asked.items():
                value = values.get(key)
                if value is not None:
                    self._remember(key, value)
                future.set_result(value)
        finally:
            self._asked = {}

    def _remember(self, key: Key, value: Value) -> None:
        self._known[key] = value
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)


def _retrieve(future: asyncio.Future[Value | None]) -> None:
    """Marks an error as seen: those who waited for it may be gone."""
    if not future.cancelled():
        future.exception()
