"""The size of the delivery backlog, measured periodically for the metrics."""

from __future__ import annotations

import msgspec

from actors.database import DatabaseUnavailableError, DbConnection
from actors.periodic import PeriodicTask
from engine.limits import DELIVERY_BACKLOG_COUNT_MAX, DELIVERY_BACKLOG_SECONDS


class BacklogFigures(msgspec.Struct):
    """Due deliveries; counting stops at ``DELIVERY_BACKLOG_COUNT_MAX``."""

    due: int = 0
    due_of_one_max: int = 0
    """Due deliveries of the endpoint with the most."""


class Backlog:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(self, connection: DbConnection) -> None:
        self.figures = BacklogFigures()
        self._connection = connection
        self._task = PeriodicTask(
            "backlog", self.measure, DELIVERY_BACKLOG_SECONDS, tolerated=(DatabaseUnavailableError,)
        )
        self.start, self.stop = self._task.start, self._task.stop

    async def measure(self) -> None:
        """Measure once. A failed measurement leaves the last figures. Raises ``DatabaseUnavailableError``."""
        (row,) = await self._connection.fetch("measure_backlog", DELIVERY_BACKLOG_COUNT_MAX)
        self.figures = BacklogFigures(row["backlog"], row["backlog_of_one_max"])
