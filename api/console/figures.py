"""The console's figures, read from PostgreSQL for one tenant and mode.

The console polls every few seconds, so each query is bounded by a number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from api.access.tokens import Caller
from api.database.pool import Connection
from api.http.fields import shown_instant
from engine.instant import to_ms, to_text
from engine.limits import CONSOLE_ACTS_MAX, CONSOLE_DELIVERIES_MAX, CONSOLE_PROGRAMMES_MAX
from engine.money import format_minor
from engine.programmes.programme import ProgrammeConfig

_decode_config = msgspec.json.Decoder(ProgrammeConfig).decode

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
_AUDIT_LOG: Final = f"""
    SELECT l.id::text, l.recorded_at, l.actor_kind, coalesce(u.name, c.name, c.client_id, l.actor) AS actor,
           l.act, l.object_kind, l.object_id, l.before, l.after, l.request_id
    FROM audit_log l LEFT JOIN clients c ON l.actor_kind = 'client' AND c.id::text = l.actor
        LEFT JOIN users u ON l.actor_kind = 'user' AND u.id::text = l.actor
    WHERE l.tenant_id = $1 AND l.live = $2 ORDER BY l.id DESC LIMIT {CONSOLE_ACTS_MAX}
"""


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
