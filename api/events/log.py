"""Writing an event row in the transaction of its cause; owners write theirs with the group commit."""

from __future__ import annotations

from typing import Any, Final, Protocol

from api.access.tokens import Caller
from api.database.pool import Connection
from api.services import Services
from engine.instant import to_datetime
from engine.replies import body_bytes

_INSERT: Final = (
    "INSERT INTO event_rows (id, tenant_id, live, type, created_at, data) VALUES ($1, $2, $3, $4, $5, $6)"
)


class Party(Protocol):
    """Tenant and mode of an event: a caller, or another object that belongs to one tenant in one mode."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def live(self) -> bool: ...


async def record(
    connection: Connection, services: Services, caller: Caller, type_: str, data: dict[str, Any], now_ms: int
) -> None:
    """Write an event of ``now_ms``. ``data`` is stored in the exact JSON that receivers get."""
    await write(connection, services.new_id(), caller, type_, data, now_ms)


async def write(
    connection: Connection, id_: str, party: Party, type_: str, data: dict[str, Any], now_ms: int
) -> None:
    """``record`` for events without a caller: from sweepers and from the command line."""
    text = body_bytes(data).decode()
    await connection.execute(_INSERT, id_, party.tenant_id, party.live, type_, to_datetime(now_ms), text)
