"""``Idempotency-Key``: one effect for each key, and its answer byte for byte to every repetition (contract,
section 11).

The answer is written in the transaction of the effect: by ``once`` for the API's own transactions, by the
owner for commands (which get the ``Claim``). A refusal has no effect, so it is kept by itself, under the same
lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Caller
from api.database import Connection, fetch_row, transaction
from api.problems import PROBLEM_MEDIA_TYPE, Refusal
from api.services import Services
from engine.limits import IDEMPOTENCY_KEY_CHARS_MAX, IDEMPOTENCY_RETENTION_HOURS
from engine.replies import Claim

SEAL_PURPOSE: Final = "idempotency"
KEY_PURPOSE: Final = "idempotency-key"
FINGERPRINT_PURPOSE: Final = "idempotency-fingerprint"
REPLAYED_HEADER: Final = "Idempotent-Replayed"

_KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{IDEMPOTENCY_KEY_CHARS_MAX}}}")
_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_LOCK: Final = "SELECT pg_try_advisory_xact_lock($1)"
_FRESH: Final = f"created_at > least(now(), $2::timestamptz) - interval '{IDEMPOTENCY_RETENTION_HOURS} hours'"
"""$2 is this machine's clock: an answer is too old only by both clocks."""
_RECALL: Final = f"SELECT fingerprint, status, body FROM idempotency WHERE key_digest = $1 AND {_FRESH}"
_EXPIRE: Final = f"DELETE FROM idempotency WHERE key_digest = $1 AND NOT {_FRESH}"
_KEEP: Final = (
    "INSERT INTO idempotency (key_digest, fingerprint, status, body) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT DO NOTHING RETURNING 1"
)


def claim_of(
    services: Services, caller: Caller, request: Request, body: Any, *, required: bool
) -> Claim | None:
    """The request's claim to its key: scope = client + method + path, fingerprint = keyed hash of the
    canonical body.

    Raises ``Refusal`` 400 when a required key is missing, or when a key cannot be one.
    """
    keys = request.headers.getlist("idempotency-key")
    if not keys and not required:
        return None
    if not keys:
        raise Refusal("idempotency-key-missing")
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise Refusal("idempotency-key-invalid")
    scope = "\0".join((caller.client, request.method, _path(request), keys[0]))
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = services.vault.digest
    return Claim(digest(KEY_PURPOSE, scope.encode()), digest(FINGERPRINT_PURPOSE, canonical.encode()))


def _path(request: Request) -> str:
    """The path with its ids in lower case: one resource has one scope, however its id is written."""
    return _ID.sub(lambda id_: id_[0].lower(), request.url.path)


def replayed(status: int, body: bytes) -> Response:
    """A stored answer, marked as such."""
    media_type = "application/json" if status < 400 else PROBLEM_MEDIA_TYPE
    return Response(body, status, {REPLAYED_HEADER: "true"}, media_type if body else None)


async def recall(services: Services, claim: Claim) -> Response | None:
    """The stored answer, if the key has one. Raises ``Refusal`` ``idempotency-key-reused``."""
    return _answer_of(
        services, claim, await fetch_row(services.pool, _RECALL, claim.key_digest, datetime.now(UTC))
    )


async def once(
    services: Services, claim: Claim | None, work: Callable[[Connection], Awaitable[Response]]
) -> Response:
    """Do ``work`` in one transaction together with its idempotency row, or answer as it was answered before.

    Raises ``Refusal`` ``idempotency-in-progress`` while another request with the key is at work, and whatever
    ``work`` raises.
    """
    async with transaction(services.pool) as connection:
        if claim is None:
            return await work(connection)
        if not await connection.fetchval(_LOCK, int.from_bytes(claim.key_digest[:8], signed=True)):
            raise _in_progress()
        stored = _answer_of(
            services, claim, await connection.fetchrow(_RECALL, claim.key_digest, datetime.now(UTC))
        )
        if stored is not None:
            return stored
        answer = await work(connection)
        sealed = services.vault.seal(SEAL_PURPOSE, bytes(answer.body), claim.key_digest)
        await connection.execute(_EXPIRE, claim.key_digest, datetime.now(UTC))
        kept = (claim.key_digest, claim.fingerprint, answer.status_code, sealed)
        if not await connection.fetchval(_KEEP, *kept):
            # An owner, who does not take our lock, has just committed the key; what was done here is undone.
            raise _in_progress()
        return answer


async def keep_refusal(services: Services, claim: Claim, refused: Response) -> Response:
    """Keep a refusal for repetitions; an answer that was stored meanwhile wins."""

    async def nothing(_connection: Connection) -> Response:
        return refused

    return await once(services, claim, nothing)


def _in_progress() -> Refusal:
    return Refusal("idempotency-in-progress", headers={"Retry-After": "1"})


def _answer_of(services: Services, claim: Claim, row: Any) -> Response | None:
    if row is None:
        return None
    if row["fingerprint"] != claim.fingerprint:
        raise Refusal("idempotency-key-reused")
    return replayed(row["status"], services.vault.open(SEAL_PURPOSE, row["body"], claim.key_digest))
