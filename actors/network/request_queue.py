"""The queue of received messages that the edge has not decoded yet.

One read of a socket returns up to a quarter of a megabyte. Deciding on a message costs a hundred times as
much as cutting its frame out. The queue therefore processes a batch in each iteration of the event loop:
between two batches the loop reads sockets, refuses what exceeds the limits, and serves other connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Sender = TypeVar("Sender")

BATCH_MIN: Final = 32
"""Messages in one batch: about five milliseconds of work."""
BATCH_DIVISOR: Final = 16
"""A longer queue is processed in batches of a sixteenth of its length: iterations are long on a machine with
many busy processes, and queued messages must not wait beyond their deadline."""


class RequestQueue(Generic[Sender]):
    """Calls ``process`` with the sender, the payload and the arrival (in the loop's time) of each message, in
    the order of arrival."""

    def __init__(self, process: Callable[[Sender, bytes, float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._waiting: deque[tuple[Sender, bytes, float]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, sender: Sender, payload: bytes) -> None:
        """Append a message."""
        if not self._waiting:
            self._loop.call_soon(self._process_batch)
        self._waiting.append((sender, payload, self._loop.time()))

    def flush(self) -> None:
        """Process all queued messages now."""
        while self._waiting:
            self._process(*self._waiting.popleft())

    def _process_batch(self) -> None:
        try:
            for _ in range(min(max(BATCH_MIN, len(self._waiting) // BATCH_DIVISOR), len(self._waiting))):
                self._process(*self._waiting.popleft())
        finally:
            # An exception while processing one message must not stop the others.
            if self._waiting:
                self._loop.call_soon(self._process_batch)
