"""The console's figures, read from PostgreSQL for one tenant and mode.

The console polls every two seconds, so each query is bounded by a time window and by a number of rows. The
window is a range of ids, which begin with their time.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from api.access.tokens import Caller
from api.database.pool import Connection
from api.http.fields import shown_instant
from api.transactions.views import SELECT, show
from engine.instant import to_ms, to_text
from engine.limits import (
    CONSOLE_ACTS_MAX,
    CONSOLE_DECISIONS_MAX,
    CONSOLE_DELIVERIES_MAX,
    CONSOLE_PROGRAMMES_MAX,
    CONSOLE_SIMULATIONS_MAX,
    CONSOLE_SLOT_SECONDS,
    CONSOLE_TRANSACTIONS_MAX,
    CONSOLE_WINDOW_SECONDS,
)
from engine.money import format_minor
from engine.programmes.programme import ProgrammeConfig

NOW_SLOTS: Final = 2
"""Number of complete slots that the current rate averages."""

_decode_config = msgspec.json.Decoder(ProgrammeConfig).decode

_DECISIONS: Final = f"""
    SELECT floor(extract(epoch FROM created_at) / {CONSOLE_SLOT_SECONDS})::bigint AS slot,
           decline_reason, count(*)
    FROM (SELECT created_at, decline_reason FROM transactions
          WHERE tenant_id = $1 AND live = $2 AND id >= $3::uuid AND kind <> 'force_post'
          ORDER BY id DESC LIMIT {CONSOLE_DECISIONS_MAX}) AS newest
    GROUP BY slot, decline_reason
"""
_LATENCIES: Final = f"""
    SELECT extract(epoch FROM decided_at - sent_at) * 1000 AS ms
    FROM (SELECT decided_at, sent_at FROM simulations
          WHERE tenant_id = $1 AND id >= $2::uuid
          ORDER BY id DESC LIMIT {CONSOLE_SIMULATIONS_MAX}) AS newest
    WHERE decided_at IS NOT NULL AND sent_at IS NOT NULL
"""
_PROGRAMMES: Final = f"""
    SELECT p.config, o.started_at, o.used_minor, o.currency
    FROM programmes p LEFT JOIN outages o ON o.programme_id = p.id AND o.ended_at IS NULL
    WHERE p.tenant_id = $1 AND p.live = $2
    ORDER BY (o.id IS NULL), p.id DESC LIMIT {CONSOLE_PROGRAMMES_MAX}
"""
_ENDPOINTS: Final = f"""
    SELECT w.id::text, w.url, w.status, d.*
    FROM webhook_endpoints w CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE state = 'delivered') AS delivered,
               count(*) FILTER (WHERE state = 'failed') AS failed,
               count(*) FILTER (WHERE state = 'pending' AND attempts = 0) AS fresh,
               count(*) FILTER (WHERE state = 'pending' AND attempts > 0) AS retried
        FROM (SELECT state, attempts FROM deliveries WHERE endpoint_id = w.id
              ORDER BY id DESC LIMIT {CONSOLE_DELIVERIES_MAX}) AS newest) AS d
    WHERE w.tenant_id = $1 AND w.live = $2 ORDER BY w.id DESC
"""
_CARD: Final = """
    SELECT c.id::text, c.last4, c.iin, c.state, c.currency, c.network, old.card_id::text AS replaces,
           new.replacement_id::text AS replaced_by
    FROM cards c LEFT JOIN card_replacements old ON old.replacement_id = c.id
    LEFT JOIN card_replacements new ON new.card_id = c.id
    WHERE c.id = $3::uuid AND c.tenant_id = $1 AND c.live = $2
"""
_AUDIT_LOG: Final = f"""
    SELECT l.id::text, l.recorded_at, l.actor_kind, coalesce(u.name, c.name, c.client_id, l.actor) AS actor,
           l.act, l.object_kind, l.object_id, l.before, l.after, l.request_id
    FROM audit_log l LEFT JOIN clients c ON l.actor_kind = 'client' AND c.id::text = l.actor
        LEFT JOIN users u ON l.actor_kind = 'user' AND u.id::text = l.actor
    WHERE l.tenant_id = $1 AND l.live = $2 ORDER BY l.id DESC LIMIT {CONSOLE_ACTS_MAX}
"""
_LAST: Final = f"ORDER BY r.id DESC LIMIT {CONSOLE_TRANSACTIONS_MAX}"
_OF_ALL: Final = f"{SELECT} WHERE r.tenant_id = $1 AND r.live = $2 {_LAST}"
_OF_CARD: Final = f"{SELECT} WHERE r.tenant_id = $1 AND r.live = $2 AND r.card_id = $3::uuid {_LAST}"


class Decisions(msgspec.Struct, frozen=True):
    """Decisions of the last five minutes. The lists are parallel: the end of each slot (Unix seconds), and
    its approvals and declines per second."""

    at: list[int]
    approved: list[float]
    declined: list[float]
    reasons: list[tuple[str, int]]
    """Decline reasons with their counts, most frequent first."""

    @property
    def approved_now(self) -> float:
        return _mean(self.approved[-NOW_SLOTS:])

    @property
    def declined_now(self) -> float:
        return _mean(self.declined[-NOW_SLOTS:])

    @property
    def declined_share(self) -> float | None:
        """Share of declines among the decisions of the window; ``None`` if it has none."""
        declined, all_ = sum(self.declined), sum(self.declined) + sum(self.approved)
        return declined / all_ if all_ else None


async def decisions(connection: Connection, caller: Caller, now_ms: int) -> Decisions:
    """Decisions of the last five minutes without the current slot, up to a number of newest rows."""
    rows = await connection.fetch(_DECISIONS, caller.tenant_id, caller.live, _since(now_ms))
    last = now_ms // 1000 // CONSOLE_SLOT_SECONDS
    first = last - CONSOLE_WINDOW_SECONDS // CONSOLE_SLOT_SECONDS
    if sum(row["count"] for row in rows) >= CONSOLE_DECISIONS_MAX:
        # The row limit has cut off older decisions, so the oldest slot is incomplete: start after it.
        first = max(first, min(row["slot"] for row in rows) + 1)
    slots = range(first, last)
    approved, declined, reasons = Counter[int](), Counter[int](), Counter[str]()
    for row in rows:
        (declined if row["decline_reason"] else approved)[row["slot"]] += row["count"]
        if row["decline_reason"]:
            reasons[row["decline_reason"]] += row["count"]
    return Decisions(
        [(slot + 1) * CONSOLE_SLOT_SECONDS for slot in slots],
        [approved[slot] / CONSOLE_SLOT_SECONDS for slot in slots],
        [declined[slot] / CONSOLE_SLOT_SECONDS for slot in slots],
        reasons.most_common(8),
    )


async def latencies(connection: Connection, caller: Caller, now_ms: int) -> dict[str, float] | None:
    """Percentiles of wire latency in milliseconds; measured in test mode only, on simulated spends."""
    if caller.live:
        return None
    rows = await connection.fetch(_LATENCIES, caller.tenant_id, _since(now_ms))
    taken = sorted(float(row["ms"]) for row in rows)
    if not taken:
        return None
    return {"p50": taken[len(taken) // 2], "p99": taken[int(len(taken) * 0.99)], "count": len(taken)}


async def programmes(connection: Connection, caller: Caller) -> list[dict[str, Any]]:
    """Programmes with the stand-in budget used so far, those in an outage first."""
    return [_programme(row) for row in await connection.fetch(_PROGRAMMES, caller.tenant_id, caller.live)]


def _programme(row: Any) -> dict[str, Any]:
    config = _decode_config(row["config"])
    limit_minor = config.stand_in.max_total_exposure_minor
    return {
        "id": config.id,
        "name": config.name,
        "status": config.status,
        "decisioning": config.decisioning,
        "policy": config.stand_in.mode,
        "since": to_text(to_ms(row["started_at"])) if row["started_at"] else None,
        "used": format_minor(row["used_minor"] or 0),
        "limit": None if limit_minor is None else format_minor(limit_minor),
        "share": min(1.0, (row["used_minor"] or 0) / limit_minor) if limit_minor else 0.0,
        "currency": row["currency"] or config.stand_in.budget_currency or config.currency,
    }


async def endpoints(connection: Connection, caller: Caller) -> Sequence[Any]:
    """Webhook endpoints with the states of their newest deliveries."""
    return await connection.fetch(_ENDPOINTS, caller.tenant_id, caller.live)


async def transactions(
    connection: Connection, caller: Caller, card_id: str | None = None
) -> list[dict[str, Any]]:
    """The newest transactions, of one card or of all, as the API shows them."""
    arguments = (caller.tenant_id, caller.live, *([card_id] if card_id else []))
    rows = await connection.fetch(_OF_CARD if card_id else _OF_ALL, *arguments)
    return [show(row) for row in rows]


async def card(connection: Connection, caller: Caller, card_id: str) -> Any | None:
    """A card's printed data and its state; ``None`` if the caller has no such card."""
    return await connection.fetchrow(_CARD, caller.tenant_id, caller.live, card_id)


async def audit_log(connection: Connection, caller: Caller) -> list[dict[str, Any]]:
    """The newest administrative acts, with the names of the clients that did them."""
    rows = await connection.fetch(_AUDIT_LOG, caller.tenant_id, caller.live)
    return [
        {**row, "recorded_at": shown_instant(row["recorded_at"]), "change": _changes(row)} for row in rows
    ]


def _changes(row: Any) -> list[tuple[str, str, str]]:
    """Members with their values before and after the act, as texts."""
    before, after = (msgspec.json.decode(text) if text else {} for text in (row["before"], row["after"]))
    return [(name, _text(before.get(name)), _text(after.get(name))) for name in {**before, **after}]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def _since(now_ms: int) -> str:
    """The smallest possible id of the window."""
    text = f"{now_ms - CONSOLE_WINDOW_SECONDS * 1000:012x}".ljust(32, "0")
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
