"""Finishes what interrupted requests left undone: status changes of cardholders, and cards being issued.

Every API server sweeps; each row is taken by one of them for ``CARDHOLDER_RESUME_SECONDS``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import structlog

from actors.periodic import PeriodicTask
from api.cardholders.changes import finish
from api.cardholders.status import StatusChange, release, resume_at
from api.cards.card_numbers import give_back
from api.database.pool import connected
from api.http.problems import Refusal
from api.services import Services
from engine.instant import to_datetime
from engine.limits import CARDHOLDER_SWEEP_MAX, CARDHOLDER_SWEEP_SECONDS

_CHANGES: Final = """
    UPDATE cardholder_status_changes c SET resume_at = $2
    FROM (SELECT cardholder_id FROM cardholder_status_changes WHERE resume_at <= $1
          ORDER BY resume_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
    JOIN cardholders h ON h.id = due.cardholder_id
    WHERE c.cardholder_id = due.cardholder_id
    RETURNING c.id::text, c.cardholder_id::text, h.tenant_id::text, h.live, c.status, c.actor,
              c.actor_kind, c.request_id
"""
_ISSUES: Final = """
    UPDATE card_issues i SET resume_at = $2
    FROM (SELECT card_id FROM card_issues WHERE resume_at <= $1
          ORDER BY resume_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
    WHERE i.card_id = due.card_id
    RETURNING i.card_id::text, EXISTS (SELECT FROM cards WHERE id = i.card_id) AS created
"""

_log = structlog.get_logger("api.cardholders")


def cardholder_sweeper(services: Services) -> PeriodicTask:
    """Finishes interrupted changes periodically. A failed sweep is logged and the next one tries again."""
    return PeriodicTask(
        "cardholder-sweeper",
        partial(_sweep, services),
        CARDHOLDER_SWEEP_SECONDS,
        delay=CARDHOLDER_SWEEP_SECONDS,
        tolerated=(Exception,),
    )


async def _sweep(services: Services) -> None:
    await sweep(services)


async def sweep(services: Services) -> int:
    """Finish interrupted changes that are due; returns how many were finished."""
    due = (to_datetime(services.clock.now_ms()), resume_at(services), CARDHOLDER_SWEEP_MAX)
    async with connected(services.pool) as connection:
        changes = [StatusChange(**row) for row in await connection.fetch(_CHANGES, *due)]
        issues = await connection.fetch(_ISSUES, *due)
    works = [finish(services, change) for change in changes]
    works += [(release if row["created"] else give_back)(services, row["card_id"]) for row in issues]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, Refusal):
            _log.error("an interrupted change cannot be finished", fault=type(outcome).__name__)
    return sum(outcome is None for outcome in outcomes)
