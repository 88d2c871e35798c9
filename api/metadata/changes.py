"""A request that changes an object at its owner and its metadata at the API.

The owner's change comes first, so a refusal changes nothing. After an interruption in between, the first
change is in force and the caller has no answer; a repetition of the request completes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response

from api.database.pool import Connection, connected, transaction
from api.metadata.store import require_room
from api.operations.call import Call
from api.operations.idempotency import hand_over


async def owner_first(
    call: Call,
    object_id: str,
    stored: Mapping[str, Any],
    at_owner: Callable[[Call], Awaitable[object]],
    at_api: Callable[[Connection], Awaitable[Response]],
) -> Response:
    """Run ``at_owner``, whose command has the key of ``once_key``, and then ``at_api``, which applies
    ``stored`` and makes the answer. Raises their exceptions, and those of ``require_room``."""

    async def prepare(connection: Connection) -> None:
        await require_room(connection, object_id, stored)

    async def carry_out(_: None) -> Response:
        # The claim is for the answer of the second step.
        await at_owner(dataclasses.replace(call, claim=None))
        async with transaction(call.services.pool) as connection:
            return await at_api(connection)

    if call.claim is not None:
        return await hand_over(call.services, call.claim, prepare, carry_out)
    async with connected(call.services.pool) as connection:
        await prepare(connection)
    return await carry_out(None)
