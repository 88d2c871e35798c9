"""The custody log: a row for each session that may show a card number, and for each attempt to use it.

Rows are committed before a card number is opened, and kept for ``CUSTODY_LOG_DAYS``
(``stanchion custody log``)."""

from __future__ import annotations

from typing import Any, Final, Literal

from api.access.tokens import Caller
from api.database.pool import Connection
from engine.instant import to_datetime

PURPOSE: Final = "cardholder_display"
"""The only purpose for which a card number leaves custody outside the wire."""

Act = Literal["opened", "viewed", "refused"]

_RECORD: Final = """
    INSERT INTO custody_log (at, tenant_id, live, card_id, session_id, act, actor, purpose)
    VALUES ($1, $2::uuid, $3, $4::uuid, $5::uuid, $6, $7, $8)
"""
_NAMES: Final = {
    "client": "SELECT client_id FROM clients WHERE id = $1::uuid",
    "user": "SELECT email FROM users WHERE id = $1::uuid",
}


async def record(connection: Connection, session: Any, act: Act, actor: str, now_ms: int) -> None:
    """Add a row about ``session``, which has its ``id``, ``tenant_id``, ``live`` and ``card_id``."""
    about = (session["tenant_id"], session["live"], session["card_id"], session["id"])
    await connection.execute(_RECORD, to_datetime(now_ms), *about, act, actor, PURPOSE)


async def actor_of(connection: Connection, caller: Caller) -> str:
    """The API client or the user as it stands in the log."""
    return f"{caller.kind} {await connection.fetchval(_NAMES[caller.kind], caller.id)}"
