"""``stanchion audit-log``: administrative acts of all tenants and of operators, newest first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

import orjson

from ops.database.operator_connection import connect_operator

ROWS_AT_ONCE: Final = 500

_SELECT: Final = """
    SELECT l.id::text, l.recorded_at, t.name AS tenant,
           CASE l.live WHEN true THEN 'live' WHEN false THEN 'test' END AS mode,
           l.actor_kind, l.actor, l.act, l.object_kind, l.object_id, l.before, l.after, l.request_id
    FROM audit_log l LEFT JOIN tenants t ON t.id = l.tenant_id
    WHERE ($1::text IS NULL OR t.name = $1) AND ($2::timestamptz IS NULL OR l.recorded_at >= $2)
      AND ($3::text IS NULL OR l.act = $3)
    ORDER BY l.id DESC
"""


async def acts(
    dsn: str, *, tenant: str | None = None, since: datetime | None = None, act: str | None = None
) -> AsyncIterator[dict[str, Any]]:
    """The matching rows, newest first, read in steps."""
    connection = await connect_operator(dsn)
    try:
        async with connection.transaction(readonly=True):
            async for row in connection.cursor(_SELECT, tenant, since, act, prefetch=ROWS_AT_ONCE):
                yield dict(row)
    finally:
        await connection.close(timeout=10)


def as_line(row: dict[str, Any]) -> str:
    """A row for people."""
    at = row["recorded_at"].strftime("%Y-%m-%d %H:%M:%S")
    where = "installation" if row["tenant"] is None else f"{row['tenant']} {row['mode']}"
    about = row["object_kind"] if row["object_id"] is None else f"{row['object_kind']} {row['object_id']}"
    change = f"{row['before'] or '-'} -> {row['after'] or '-'}"
    return f"{at}  {where}  {row['actor_kind']} {row['actor']}  {row['act']}  {about}  {change}"


def as_json(row: dict[str, Any]) -> str:
    """A row for programs: one JSON object."""
    shown = row | {
        "recorded_at": row["recorded_at"].isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "before": _fragment(row["before"]),
        "after": _fragment(row["after"]),
    }
    return orjson.dumps(shown).decode()


def _fragment(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)
