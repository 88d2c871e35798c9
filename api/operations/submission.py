"""Submit a command to the owner of a card or programme, and turn the reply into a response."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from starlette.responses import Response

from api.http.problems import Refusal, unavailable
from api.operations.acts import act_of
from api.operations.call import Call
from api.operations.idempotency import replayed
from engine.commands import Command
from engine.ids import key_of
from engine.replies import Done, NotExecuted, Problem, body_bytes

_HOUR_MS: Final = 3_600_000


def once_key(call: Call, id_: str) -> bytes:
    """The command key of the first step of a request whose answer the API stores in a second step: the same
    for repetitions under an idempotency key within the same hour, or that of ``id_``. The hour lets the key
    be used again for another request when its answer has expired."""
    claim = call.claim
    if claim is None:
        return key_of(id_)
    hour = call.services.clock.now_ms() // _HOUR_MS
    return hashlib.blake2b(claim.key_digest + claim.fingerprint + b"%d" % hour, digest_size=16).digest()


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
