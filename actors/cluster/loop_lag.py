"""Event loop lag: how late the loop runs a timer. Every request of the process waits at least as long."""

from __future__ import annotations

import asyncio
from typing import Final

from actors.metrics import Distribution, Histogram
from actors.periodic import PeriodicTask

MEASURE_SECONDS: Final = 1.0


class LoopLag:
    """Measures the lag once a second, as long as its loop runs."""

    def __init__(self) -> None:
        self._seconds = Histogram()
        self._task = PeriodicTask("loop-lag", self._measure, MEASURE_SECONDS, delay=MEASURE_SECONDS)
        self._due = 0.0

    def start(self) -> None:
        """Start in the running loop."""
        self._due = asyncio.get_running_loop().time() + MEASURE_SECONDS
        self._task.start()

    def figure(self) -> Distribution:
        """All lags measured so far, in seconds."""
        return self._seconds.figure()

    async def _measure(self) -> None:
        now = asyncio.get_running_loop().time()
        # A timer can fire slightly early: its clock has a limited resolution.
        self._seconds.observe(max(0.0, now - self._due))
        self._due = now + MEASURE_SECONDS
