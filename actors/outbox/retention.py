"""Retention: rows past their retention period are deleted in small steps, oldest first.

Readers hide a row when its period ends. It is deleted a day later, so that an open page or an audit of the
last thirty days sees no gap. Reports show rule matches until they are deleted. Journal, ledger and
transactions are never deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from actors.database import DatabaseUnavailableError, DbConnection, read_statements
from actors.periodic import PeriodicTask
from engine.limits import (
    EVENT_RETENTION_DAYS,
    IDEMPOTENCY_RETENTION_HOURS,
    RETENTION_BUSY_SECONDS,
    RETENTION_GRACE_DAYS,
    RETENTION_ROWS_MAX,
    RETENTION_SECONDS,
    RULE_MATCH_DAYS,
    SCHEDULE_SLACK_SECONDS,
    TOMBSTONE_DAYS,
)
from engine.webhooks.schedule import OFFSETS_SECONDS

DELETION_AGE_DAYS: Final = {
    "delete_deliveries": EVENT_RETENTION_DAYS + RETENTION_GRACE_DAYS,
    "delete_events": EVENT_RETENTION_DAYS + RETENTION_GRACE_DAYS,
    "delete_idempotency": -(-IDEMPOTENCY_RETENTION_HOURS // 24) + RETENTION_GRACE_DAYS,
    "delete_rule_matches": RULE_MATCH_DAYS,
    "delete_tokens": RETENTION_GRACE_DAYS,
    "delete_tombstones": TOMBSTONE_DAYS + RETENTION_GRACE_DAYS,
}
"""The age, in days, at which each statement deletes rows."""

_SQL: Final = read_statements(Path(__file__).parent / "sql")
_log = structlog.get_logger(__name__)


def _machine_now() -> datetime:
    return datetime.now(UTC)


class Retention:
    """Deletes rows that are too old by the database's clock and by ``now``: one wrong clock deletes no row.
    Deliveries that a wrong clock has scheduled later than any schedule allows become due.

    ``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(
        self,
        connection: DbConnection,
        *,
        rows_max: int = RETENTION_ROWS_MAX,
        now: Callable[[], datetime] = _machine_now,
        seconds: float = RETENTION_SECONDS,
    ) -> None:
        self.deleted = 0
        self._connection = connection
        self._now = now
        self._rows_max = rows_max
        # A step that is cancelled commits completely or not at all.
        self._task = PeriodicTask("retention", self._sweep, seconds, tolerated=(DatabaseUnavailableError,))
        self.start, self.stop = self._task.start, self._task.stop

    async def step(self) -> bool:
        """Delete one step of each kind; returns whether more rows may be due. Raises
        ``DatabaseUnavailableError``."""
        more = False
        for statement, days in DELETION_AGE_DAYS.items():
            (row,) = await self._connection.fetch(statement, days, self._rows_max, self._now())
            self.deleted += row["deleted"]
            more = more or row["deleted"] == self._rows_max
        await self._reschedule()
        return more

    async def _reschedule(self) -> None:
        """Make deliveries due whose next attempt is later than any schedule allows."""
        ahead = OFFSETS_SECONDS[-1] + SCHEDULE_SLACK_SECONDS
        (row,) = await self._connection.fetch(
            "reschedule_deliveries", float(ahead), self._now(), self._rows_max
        )
        if row["rescheduled"]:
            _log.warning("deliveries_rescheduled", deliveries=row["rescheduled"])

    async def _sweep(self) -> float | None:
        return RETENTION_BUSY_SECONDS if await self.step() else None


def retention_connection(dsn: str) -> DbConnection:
    """A connection for the deletions."""
    return DbConnection(dsn, "stanchion-retention", _SQL)
