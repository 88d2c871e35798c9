"""``stanchion custody log``: who was given card numbers or applicants' data, when, and for which purpose."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from engine.ids import is_id
from ops.commands.tables import table
from ops.database.operator_connection import connect_operator

COLUMNS: Final = ("at", "act", "actor", "purpose", "about", "id", "session_id")
_LOG: Final = """
    SELECT * FROM (
        SELECT at, act, actor, purpose, 'card' AS about, card_id AS id, session_id FROM custody_log
        UNION ALL
        SELECT at, CASE WHEN granted THEN 'read' ELSE 'refused' END, reader, purpose, 'kyc_check', check_id,
            NULL
        FROM kyc_accesses
    ) log
    WHERE ($1::uuid IS NULL OR id = $1) AND ($2::timestamptz IS NULL OR at >= $2)
    ORDER BY at DESC LIMIT $3
"""


class CustodyLogError(Exception):
    """The log cannot be read as requested. The message is one line."""


async def log(
    dsn: str, *, id_: str | None = None, since: datetime | None = None, limit: int
) -> list[dict[str, Any]]:
    """The newest rows, newest first; of one card or KYC check if ``id_`` is given. Raises CustodyLogError."""
    if id_ is not None and not is_id(id_):
        raise CustodyLogError("the id of a card or of a KYC check is a UUID in lower case")
    connection = await connect_operator(dsn)
    try:
        rows = await connection.fetch(_LOG, id_, since, limit)
    finally:
        await connection.close(timeout=10)
    return [{name: _text(row[name]) for name in COLUMNS} for row in rows]


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as a table for people."""
    return table(COLUMNS, (tuple(row[name] for name in COLUMNS) for row in rows))


def _text(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None if value is None else str(value)
