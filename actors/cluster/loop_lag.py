"""How promptly an event loop comes round: what one late turn costs, everybody in the process waits for."""

from __future__ import annotations

import asyncio
from typing import Final

from actors.metrics import Distribution, Histogram

LOOK_SECONDS: Final = 1.0


class LoopLag:
    """Looks once a second for as long as its loop runs."""

    def __init__(self) -> None:
        self._seconds = Histogram()
        self._loop: asyncio.AbstractEventLoop
        self._due = 0.0

    def start(self) -> None:
        """Begin, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._ask()

    def figure(self) -> Distribution:
        """What was seen so far."""
        return self._seconds.figure()

    def _ask(self) -> None:
        self._due = self._loop.time() + LOOK_SECONDS
        self._loop.call_at(self._due, self._came)

    def _came(self) -> None:
        # A clock that is read a little coarser than the timer fires would give less than nothing.
        self._seconds.observe(max(0.0, self._loop.time() - self._due))
        self._ask()
