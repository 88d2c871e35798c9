"""What an edge has let in and not yet looked at.

Bytes are read by the quarter of a megabyte, and deciding what to do with each message of that takes a
hundred times as long as cutting it out. So messages are taken in at once, and worked on a few at a time:
between two turns the loop reads on, and what has to be refused, and what anybody else has to say, waits for
a turn and not for all that came before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

From = TypeVar("From")

AT_ONCE: Final = 32
"""Messages worked on in one turn of the loop: about five milliseconds."""
PART: Final = 16
"""... or this part of those that wait, if that is more: on a machine that many processes want turns are
long, and what was let in must not wait for its first one until it is too late."""


class RequestQueue(Generic[From]):
    """Calls ``work`` with each message: from whom, its payload, and when it came in, in the loop's time. They
    keep their order."""

    def __init__(self, work: Callable[[From, bytes, float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = work
        self._waiting: deque[tuple[From, bytes, float]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, sender: From, payload: bytes) -> None:
        """Have a message worked on soon."""
        if not self._waiting:
            self._loop.call_soon(self._turn)
        self._waiting.append((sender, payload, self._loop.time()))

    def finish(self) -> None:
        """Work on everything that is here, now."""
        while self._waiting:
            self._work(*self._waiting.popleft())

    def _turn(self) -> None:
        try:
            for _ in range(min(max(AT_ONCE, len(self._waiting) // PART), len(self._waiting))):
                self._work(*self._waiting.popleft())
        finally:
            # Whatever went wrong with one message, the others have their turn.
            if self._waiting:
                self._loop.call_soon(self._turn)
