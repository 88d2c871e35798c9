"""Deletes sessions that have expired, and rows of the custody log that are older than a year."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.periodic import PeriodicTask
from api.database.pool import connected
from api.services import Services
from engine.instant import DAY_MS, to_datetime
from engine.limits import (
    CUSTODY_LOG_DAYS,
    CUSTODY_SWEEP_MAX,
    CUSTODY_SWEEP_SECONDS,
    RETENTION_GRACE_DAYS,
    REVEAL_SESSION_KEPT_SECONDS,
)

_SESSIONS: Final = """
    DELETE FROM reveal_sessions WHERE id IN (
        SELECT id FROM reveal_sessions WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)
"""
# By the database's clock too, which the trigger of the table uses.
_LOG: Final = """
    DELETE FROM custody_log WHERE id IN (
        SELECT id FROM custody_log WHERE at < least($1, now() - make_interval(days => $3))
        ORDER BY at LIMIT $2)
"""


def custody_sweeper(services: Services) -> PeriodicTask:
    """Deletes old rows. A failed sweep is logged, and the next one tries again."""
    return PeriodicTask(
        "custody-sweeper",
        partial(sweep, services),
        CUSTODY_SWEEP_SECONDS,
        delay=CUSTODY_SWEEP_SECONDS,
        tolerated=(Exception,),
    )


async def sweep(services: Services) -> None:
    """Delete what is too old, at most ``CUSTODY_SWEEP_MAX`` rows of each kind."""
    now_ms, kept_days = services.clock.now_ms(), CUSTODY_LOG_DAYS + RETENTION_GRACE_DAYS
    expired = to_datetime(now_ms - REVEAL_SESSION_KEPT_SECONDS * 1000)
    old = to_datetime(now_ms - kept_days * DAY_MS)
    async with connected(services.pool) as connection:
        await connection.execute(_SESSIONS, expired, CUSTODY_SWEEP_MAX)
        await connection.execute(_LOG, old, CUSTODY_SWEEP_MAX, kept_days)
