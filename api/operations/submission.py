"""Submit a command to the owner of a card or programme, and turn the reply into a response."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from api.http.problems import Refusal, unavailable
from api.operations.acts import act_of
from api.operations.call import Call
from api.operations.idempotency import replayed
from engine.commands import Command
from engine.replies import Done, NotExecuted, Problem, body_bytes


async def submit(call: Call, command: Command, presentation: dict[str, Any] | None = None) -> Response:
    """The response to ``command``; the idempotency row was committed with its effect. Raises ``Refusal``."""
    reply = await call.services.owners.submit(
        command, claim=call.claim, presentation=presentation, act=act_of(call)
    )
    if isinstance(reply, Done):
        body = body_bytes(reply.body)
        if reply.replayed and call.claim:
            return replayed(reply.status, body)
        return Response(body, reply.status, media_type="application/json")
    if isinstance(reply, Problem):
        raise Refusal(reply.slug, reply.detail)
    assert isinstance(reply, NotExecuted), "wire answers are for wire commands"
    if reply.reason == "key_reused":
        raise Refusal("idempotency-key-reused")
    if reply.reason == "faulty":
        raise Refusal("internal-error")
    raise unavailable()
