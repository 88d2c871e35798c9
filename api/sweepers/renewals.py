"""Renews cards before they expire: a replacement for the reason ``expired``.

The setting ``card_renewal`` of a programme says which of its cards are renewed. Cards that are not active,
and cards of retired products, of programmes or cardholders that are not active, are not renewed.

Every API server sweeps. A row of ``card_renewals`` is the lease of one of them on a card. The card's owner
decides: it replaces a card once, so a second renewal of the same card changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import structlog

from actors.periodic import PeriodicTask
from api.cardholders.status import release
from api.cards.card_numbers import give_back
from api.cards.replace import find_replaceable, prepare
from api.database.object_metadata import about_of
from api.database.pool import connected
from api.http.problems import Refusal
from api.metadata.creation import conclude, reserve
from api.services import Services
from engine.instant import DAY_MS, to_datetime
from engine.limits import (
    RENEWAL_DAYS,
    RENEWAL_LEASE_SECONDS,
    RENEWAL_LEASES_KEPT_DAYS,
    RENEWAL_SWEEP_MAX,
    RENEWAL_SWEEP_SECONDS,
    RENEWALS_AT_ONCE,
)
from engine.replies import Done, Problem

# The renewable cards of each product are a range of an index. Defaults are not stored in a configuration.
_CLAIM: Final = """
    INSERT INTO card_renewals (card_id, resume_at)
    SELECT due.id, $6
    FROM card_products p JOIN programmes g ON g.id = p.programme_id
    CROSS JOIN LATERAL (
        SELECT coalesce(g.config::jsonb ->> 'status', 'active') AS status,
            coalesce(g.config::jsonb ->> 'card_renewal', 'virtual') AS renewal
    ) config
    CROSS JOIN LATERAL (
        SELECT c.id FROM cards c
        JOIN cardholders h ON h.id = c.cardholder_id LEFT JOIN card_renewals l ON l.card_id = c.id
        WHERE c.card_product_id = p.id AND c.state = 'active' AND c.cardholder_active AND h.status = 'active'
            AND (c.exp_year, c.exp_month) >= ($1::smallint, $2::smallint)
            AND (c.exp_year, c.exp_month) <= ($3::smallint, $4::smallint)
            AND coalesce(l.resume_at <= $5, true)
        ORDER BY c.exp_year, c.exp_month, c.id LIMIT $7
    ) due
    WHERE p.status = 'active' AND config.status = 'active'
        AND (config.renewal = 'all' OR (config.renewal = 'virtual' AND p.form_factor = 'virtual'))
    LIMIT $7
    ON CONFLICT (card_id) DO UPDATE SET resume_at = excluded.resume_at WHERE card_renewals.resume_at <= $5
    RETURNING card_id::text AS id
"""
_CARDS: Final = "SELECT id::text, tenant_id::text, live FROM cards WHERE id = ANY ($1::uuid[])"
_END: Final = "DELETE FROM card_renewals WHERE card_id = $1::uuid"
_FORGET: Final = "DELETE FROM card_renewals WHERE resume_at < $1"

_log = structlog.get_logger("api.renewals")


def renewal_sweeper(services: Services) -> PeriodicTask:
    """Renews cards periodically. A failed sweep is logged, and the next one tries again."""
    return PeriodicTask(
        "renewal-sweeper",
        partial(_sweep, services),
        RENEWAL_SWEEP_SECONDS,
        delay=RENEWAL_SWEEP_SECONDS,
        tolerated=(Exception,),
    )


async def _sweep(services: Services) -> None:
    await sweep(services)


async def sweep(services: Services) -> int:
    """Renew cards that are due, at most ``RENEWAL_SWEEP_MAX``; returns how many were renewed."""
    cards = await _claim(services)
    renewed = 0
    for start in range(0, len(cards), RENEWALS_AT_ONCE):
        some = cards[start : start + RENEWALS_AT_ONCE]
        outcomes = await asyncio.gather(*(renew(services, card) for card in some), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, Refusal):
                _log.error("card_not_renewed", fault=type(outcome).__name__)
        renewed += sum(outcome is True for outcome in outcomes)
    return renewed


async def renew(services: Services, card: Any) -> bool:
    """Renew one card; returns whether this call did. Raises ``Refusal`` if it cannot be replaced now."""
    found = await find_replaceable(services, card["id"], card["tenant_id"], card["live"])
    command = await prepare(services, found, "expired")
    about = about_of(found)
    await reserve(services, command, "card", command.id, about)
    reply = await services.owners.submit(command)
    if isinstance(reply, Problem):
        await conclude(services, command.id, about, exists=False)
        await give_back(services, command.id)
        return False
    if not isinstance(reply, Done):
        # Unknown: the sweeper of interrupted issues releases the new card or its number.
        return False
    await conclude(services, command.id, about, exists=True)
    await release(services, command.id)
    async with connected(services.pool) as connection:
        await connection.execute(_END, card["id"])
    return True


def due_months(now_ms: int) -> tuple[int, int, int, int]:
    """Year and month of the first and of the last expiry whose cards are due for renewal: the present month,
    and the last month that ends within ``RENEWAL_DAYS`` (UTC)."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    last = (now + timedelta(days=RENEWAL_DAYS)).replace(day=1) - timedelta(days=1)
    return now.year, now.month, last.year, last.month


async def _claim(services: Services) -> Sequence[Any]:
    """Lease cards that are due."""
    now_ms = services.clock.now_ms()
    until = to_datetime(now_ms + RENEWAL_LEASE_SECONDS * 1000)
    forgotten = to_datetime(now_ms - RENEWAL_LEASES_KEPT_DAYS * DAY_MS)
    async with connected(services.pool) as connection:
        await connection.execute(_FORGET, forgotten)
        due = (*due_months(now_ms), to_datetime(now_ms), until, RENEWAL_SWEEP_MAX)
        claimed = [row["id"] for row in await connection.fetch(_CLAIM, *due)]
        return await connection.fetch(_CARDS, claimed)
