"""External references and metadata of objects that another process creates: cards and programmes.

The row is written, and marked as reserved, before the command goes to the owner. So an object that exists has
its values, whatever is interrupted. A row whose object was never created is not visible, because objects are
read by their own rows; ``api.sweepers.metadata`` deletes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog
from starlette.responses import Response

from api.database.object_metadata import About
from api.database.pool import Connection, connected, transaction
from api.events.log import Party
from api.http.faults import CONNECTION_FAILURES
from api.http.problems import Refusal
from api.metadata.store import Kind, erase, insert
from api.operations.call import Call
from api.operations.idempotency import REPLAYED_HEADER
from api.services import Services
from engine.instant import to_datetime

_RESERVE: Final = "UPDATE object_metadata SET reserved_at = $2 WHERE object_id = $1::uuid"
_log = structlog.get_logger("api.metadata")


async def creating(
    call: Call, kind: Kind, object_id: str, about: About, create: Callable[[], Awaitable[Response]]
) -> Response:
    """Store ``about`` for ``object_id``, which ``create`` creates, and return the response of ``create``.

    Nothing stays stored if the object was not created, or if the response repeats that of an earlier request.
    """
    services = call.services
    await reserve(services, call.caller, kind, object_id, about)
    try:
        response = await create()
    except Refusal as refusal:
        if refusal.kind.status < 500:
            await conclude(services, object_id, about, exists=False)
        raise
    await conclude(services, object_id, about, exists=REPLAYED_HEADER not in response.headers)
    return response


async def reserve(services: Services, party: Party, kind: Kind, object_id: str, about: About) -> None:
    """Store ``about`` for an object that will be created. ``conclude`` has to follow."""
    if about.empty:
        return
    async with transaction(services.pool) as connection:
        await insert(connection, party, kind, object_id, about)
        await _set_reserved(connection, object_id, to_datetime(services.clock.now_ms()))


async def conclude(services: Services, object_id: str, about: About, *, exists: bool) -> None:
    """Confirm or delete what ``reserve`` stored. A failure is left to the sweeper: the outcome is known."""
    if about.empty:
        return
    try:
        async with connected(services.pool) as connection:
            await (_set_reserved(connection, object_id, None) if exists else erase(connection, object_id))
    except CONNECTION_FAILURES as failure:
        _log.info("reserved_metadata_left", error=type(failure).__name__)


async def _set_reserved(connection: Connection, object_id: str, at: datetime | None) -> None:
    await connection.execute(_RESERVE, object_id, at)
