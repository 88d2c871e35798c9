"""Acts of owners on other callers take turns within a tenant."""

from __future__ import annotations

from typing import Final

from api.access.tokens import Caller
from api.database.pool import Connection
from api.http.problems import Refusal

_TAKE_TURNS: Final = "SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE"
_STILL_OWNER: Final = {
    "client": "SELECT true FROM clients WHERE id = $1::uuid AND owner AND revoked_at IS NULL",
    "user": "SELECT true FROM users WHERE id = $1::uuid AND role = 'owner' AND disabled_at IS NULL",
}


async def require_owner(connection: Connection, caller: Caller) -> None:
    """Lock the tenant until the transaction ends. Raises ``Refusal`` 401 if the caller has just been revoked
    or disabled, or is no owner any more: its token or session may still be in use."""
    await connection.execute(_TAKE_TURNS, caller.tenant_id)
    if not await connection.fetchval(_STILL_OWNER[caller.kind], caller.id):
        raise Refusal("unauthorized", headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
