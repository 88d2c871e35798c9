"""Deadlines of many items with one common duration, on one timer of the event loop.

Items become due in the order in which they were added. A timer for each authorization would cost more than
decoding it, and nearly all are answered long before their deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Deadlines(Generic[Item]):
    """Calls ``expire`` with each item that is not ``done`` within ``seconds``."""

    def __init__(self, seconds: float, expire: Callable[[Item], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._expire = expire
        self._due: dict[Item, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, item: Item) -> bool:
        return item in self._due

    def add(self, item: Item, since: float | None = None) -> None:
        """Start the deadline of ``item`` at ``since`` in the loop's time, now if ``None``. ``since`` must not
        be earlier than that of the item before."""
        due = (self._loop.time() if since is None else since) + self._seconds
        self._due[item] = due
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._expire_due)

    def done(self, item: Item) -> float | None:
        """Stop the deadline of ``item``. Returns the seconds since its start, or ``None`` if it has
        expired."""
        due = self._due.pop(item, None)
        if due is None:
            return None
        over = self._loop.time() - due
        if over > 0:
            # After a pause of the process, the loop handles messages before timers.
            self._expire(item)
            return None
        return over + self._seconds

    def stop(self) -> None:
        """Drop all items. Their deadlines do not expire."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire_due(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = []
        for item, due in self._due.items():
            if due > now:
                self._timer = self._loop.call_at(due, self._expire_due)
                break
            late.append(item)
        for item in late:
            del self._due[item]
            self._expire(item)
