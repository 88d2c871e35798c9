"""One timer for many things that all have the same time: the oldest is due first.

A timer for each authorization would cost more than decoding it, and nearly all are answered long before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Deadlines(Generic[Item]):
    """Calls ``expire`` with each item that is not ``done`` within ``seconds`` of being added."""

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
        """Starts the time of ``item``, or has it run since ``since`` in the loop's time, which never goes
        back from one item to the next."""
        due = (self._loop.time() if since is None else since) + self._seconds
        self._due[item] = due
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._ring)

    def done(self, item: Item) -> float | None:
        """Stops the time of ``item``: the seconds it took, or ``None`` when it had run out."""
        due = self._due.pop(item, None)
        if due is None:
            return None
        over = self._loop.time() - due
        if over > 0:
            # A process that stood still gets its messages before its timers.
            self._expire(item)
            return None
        return over + self._seconds

    def stop(self) -> None:
        """Forgets everything."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = []
        for item, due in self._due.items():
            if due > now:
                self._timer = self._loop.call_at(due, self._ring)
                break
            late.append(item)
        for item in late:
            del self._due[item]
            self._expire(item)
