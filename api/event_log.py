"""Writing an event row in the transaction of its cause; owners write theirs with the group commit."""

from __future__ import annotations

from typing import Any, Final

from api.auth import Caller
from api.database import Connection
from api.services import Services
from engine.instant import to_datetime
from engine.replies import body_bytes

_INSERT: Final = (
    "INSERT INTO events (id, tenant_id, live, type, created_at, data) VALUES ($1, $2, $3, $4, $5, $6)"
)


async def record(
    connection: Connection, services: Services, caller: Caller, type_: str, data: dict[str, Any], now_ms: int
) -> None:
    """Tell what happened at ``now_ms``; ``data`` rests in the exact JSON that receivers will get."""
    text = body_bytes(data).decode()
    await connection.execute(
        _INSERT, services.new_id(), caller.tenant_id, caller.live, type_, to_datetime(now_ms), text
    )
