"""What is kept for a time only is deleted when that is over: in small steps, the oldest first.

Readers stop showing a row the moment its time is over; here it goes a day later, so that nobody who is just
reading, and no audit of the last thirty days, sees a gap. Money is never touched: the journal, the ledger and
the transactions are kept.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import structlog

from actors.database import DatabaseUnavailableError, Lane, read_statements
from engine.limits import (
    EVENT_RETENTION_DAYS,
    IDEMPOTENCY_RETENTION_HOURS,
    RETENTION_BUSY_SECONDS,
    RETENTION_GRACE_DAYS,
    RETENTION_ROWS_MAX,
    RETENTION_SECONDS,
    TOMBSTONE_DAYS,
)

KEPT_DAYS: Final = {
    "delete_deliveries": EVENT_RETENTION_DAYS + RETENTION_GRACE_DAYS,
    "delete_events": EVENT_RETENTION_DAYS + RETENTION_GRACE_DAYS,
    "delete_idempotency": -(-IDEMPOTENCY_RETENTION_HOURS // 24) + RETENTION_GRACE_DAYS,
    "delete_tokens": RETENTION_GRACE_DAYS,
    "delete_tombstones": TOMBSTONE_DAYS + RETENTION_GRACE_DAYS,
}
"""Each statement and the days after which its rows go."""

_SQL: Final = read_statements(Path(__file__).parent / "sql")
_log = structlog.get_logger(__name__)


class Retention:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(self, lane: Lane, *, rows_max: int = RETENTION_ROWS_MAX) -> None:
        self.deleted = 0
        self._lane = lane
        self._rows_max = rows_max
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Delete from time to time, in the background."""
        self._loop = self._loop or asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; a step under way happens or does not."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    async def step(self) -> bool:
        """Delete some of everything that is due; whether more may be. Raises DatabaseUnavailableError."""
        more = False
        for statement, days in KEPT_DAYS.items():
            (row,) = await self._lane.fetch(statement, days, self._rows_max)
            self.deleted += row["deleted"]
            more = more or row["deleted"] == self._rows_max
        return more

    async def _run(self) -> None:
        while True:
            pause = RETENTION_SECONDS
            try:
                if await self.step():
                    pause = RETENTION_BUSY_SECONDS
            except DatabaseUnavailableError as failure:
                _log.warning("retention_failed", error=type(failure).__name__)
            await asyncio.sleep(pause)


def retention_lane(dsn: str) -> Lane:
    """A connection for the deletions."""
    return Lane(dsn, "stanchion-retention", _SQL)
