"""Start a follow-up at the simulated network: one for each idempotency key, without holding a database
connection during the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from api.database.pool import Connection
from api.http.answers import json_response
from api.operations.call import Call
from api.operations.idempotency import hand_over
from api.simulations.originals import follow_up_id, started
from engine.simulation import Acceptance, FollowUpRequest

Build = Callable[[Connection, str, int, bytes], Awaitable[FollowUpRequest]]
"""Checks the caller's request and returns the request for the network. Arguments: a connection, the
follow-up's id, the current time, and the fingerprint of the caller's request. Raises ``Refusal``."""


async def start(
    call: Call, beside: str, build: Build, show: Callable[[Acceptance], dict[str, Any]]
) -> Response:
    """202 with the follow-up that the request's key names, on the shard of ``beside``.

    The network starts an id once and gives its first acceptance again, so a request that takes over from one
    that died starts no second follow-up. Raises ``Refusal`` and ``NetworkUnavailableError``.
    """
    services, claim = call.services, call.claim
    assert claim is not None, "POST demands a key"
    id_ = follow_up_id(beside, claim)

    async def prepare(connection: Connection) -> Acceptance | FollowUpRequest:
        accepted = await started(connection, id_, call.caller.tenant_id, claim)
        return accepted or await build(connection, id_, services.clock.now_ms(), claim.fingerprint)

    async def carry_out(prepared: Acceptance | FollowUpRequest) -> Response:
        accepted = prepared
        if not isinstance(accepted, Acceptance):
            accepted = await services.network.accept(accepted)
        return json_response(202, show(accepted))

    return await hand_over(services, claim, prepare, carry_out)
