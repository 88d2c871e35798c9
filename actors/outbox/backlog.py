"""The size of the delivery backlog, measured periodically for the metrics."""

from __future__ import annotations

import asyncio

import msgspec

from actors.database import DatabaseUnavailableError, Lane
from actors.essential import start_essential
from engine.limits import BACKLOG_COUNT_MAX, BACKLOG_MEASURE_SECONDS


class BacklogFigures(msgspec.Struct):
    """Due deliveries; counting stops at ``BACKLOG_COUNT_MAX``."""

    due: int = 0
    due_of_one_max: int = 0
    """Due deliveries of the endpoint with the most."""


class Backlog:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(self, lane: Lane) -> None:
        self.figures = BacklogFigures()
        self._lane = lane
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Measure from time to time, in the background."""
        self._loop = self._loop or start_essential(self._run(), "backlog")

    async def stop(self) -> None:
        """Stop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    async def measure(self) -> None:
        """Measure once. Raises ``DatabaseUnavailableError``."""
        (row,) = await self._lane.fetch("measure_backlog", BACKLOG_COUNT_MAX)
        self.figures = BacklogFigures(row["backlog"], row["backlog_of_one_max"])

    async def _run(self) -> None:
        while True:
            try:
                await self.measure()
            except DatabaseUnavailableError:
                pass  # keep the last figures
            await asyncio.sleep(BACKLOG_MEASURE_SECONDS)
