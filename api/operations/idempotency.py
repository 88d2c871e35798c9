"""``Idempotency-Key``: one effect for each key, and its answer byte for byte to every repetition.

The answer is written in the transaction of the effect: by ``once`` for the API's own transactions, by the
owner for commands (which get the ``IdempotencyClaim``). A refusal has no effect; it is stored on its own,
under the same lock.

``hand_over`` is for requests that another process than an owner executes. It commits a row in table
``idempotency_claims`` first, makes the call without a database connection, and replaces the row by the
answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import structlog
from starlette.requests import Request
from starlette.responses import Response

from api.access.tokens import Caller
from api.database.pool import Connection, connected, fetch_row, transaction
from api.http.faults import CONNECTION_FAILURES
from api.http.problems import PROBLEM_MEDIA_TYPE, Refusal
from api.services import Services
from engine.limits import IDEMPOTENCY_LEASE_SECONDS, IDEMPOTENCY_RETENTION_HOURS
from engine.replies import IdempotencyClaim

SEAL_PURPOSE: Final = "idempotency"
KEY_PURPOSE: Final = "idempotency-key"
FINGERPRINT_PURPOSE: Final = "idempotency-fingerprint"
REPLAYED_HEADER: Final = "Idempotent-Replayed"

_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_LOCK: Final = "SELECT pg_try_advisory_xact_lock($1)"
_FRESH: Final = f"created_at > least(now(), $2::timestamptz) - interval '{IDEMPOTENCY_RETENTION_HOURS} hours'"
"""$2 is this machine's clock: an answer is too old only by both clocks."""
_RECALL: Final = f"SELECT fingerprint, status, body FROM idempotency WHERE key_digest = $1 AND {_FRESH}"
_STATE: Final = f"""
    SELECT fingerprint, status, body, NULL AS leased FROM idempotency WHERE key_digest = $1 AND {_FRESH}
    UNION ALL
    SELECT fingerprint, NULL, NULL, lease_until > now() FROM idempotency_claims
    WHERE key_digest = $1 AND claimed_at > now() - interval '{IDEMPOTENCY_RETENTION_HOURS} hours'
"""
"""One statement, so that it sees either the claim or the answer that has replaced it."""
_CLAIM: Final = f"""
    INSERT INTO idempotency_claims (key_digest, fingerprint, lease_until)
    VALUES ($1, $2, now() + interval '{IDEMPOTENCY_LEASE_SECONDS} seconds')
    ON CONFLICT (key_digest) DO UPDATE
    SET fingerprint = excluded.fingerprint, claimed_at = now(), lease_until = excluded.lease_until
"""
_END_LEASE: Final = "UPDATE idempotency_claims SET lease_until = now() WHERE key_digest = $1"
_END_CLAIM: Final = "DELETE FROM idempotency_claims WHERE key_digest = $1"
_EXPIRE: Final = f"DELETE FROM idempotency WHERE key_digest = $1 AND NOT {_FRESH}"
_KEEP: Final = (
    "INSERT INTO idempotency (key_digest, fingerprint, status, body) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT DO NOTHING RETURNING 1"
)
_log = structlog.get_logger(__name__)
Prepared = TypeVar("Prepared")


def claim_of(services: Services, caller: Caller, request: Request, key: str, body: Any) -> IdempotencyClaim:
    """The request's claim to ``key``: scope = caller + method + path, fingerprint = keyed hash of the
    canonical body. A user has other keys in each mode.
    """
    claimant = caller.id if caller.kind == "client" else f"{caller.id} {caller.mode}"
    scope = "\0".join((claimant, request.method, _path(request), key))
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = services.vault.digest
    return IdempotencyClaim(
        digest(KEY_PURPOSE, scope.encode()), digest(FINGERPRINT_PURPOSE, canonical.encode())
    )


def _path(request: Request) -> str:
    """The path with its ids in lower case: one resource has one scope, however its id is written."""
    return _ID.sub(lambda id_: id_[0].lower(), request.url.path)


def replayed(status: int, body: bytes) -> Response:
    """A stored answer, marked as such."""
    media_type = "application/json" if status < 400 else PROBLEM_MEDIA_TYPE
    return Response(body, status, {REPLAYED_HEADER: "true"}, media_type if body else None)


async def recall(services: Services, claim: IdempotencyClaim) -> Response | None:
    """The stored answer, if the key has one. Raises ``Refusal`` ``idempotency-key-reused``."""
    return _answer_of(
        services, claim, await fetch_row(services.pool, _RECALL, claim.key_digest, datetime.now(UTC))
    )


async def once(
    services: Services, claim: IdempotencyClaim | None, work: Callable[[Connection], Awaitable[Response]]
) -> Response:
    """Do ``work`` and store its answer in one transaction, or return the answer stored before.

    Raises ``Refusal`` ``idempotency-in-progress`` while another request uses the key, and the exceptions of
    ``work``.
    """
    async with transaction(services.pool) as connection:
        if claim is None:
            return await work(connection)
        stored = await _take(services, claim, connection)
        if stored is not None:
            return stored
        answer = await work(connection)
        if not await _keep(services, claim, connection, answer):
            # An owner, which does not take this lock, has just committed the key. This transaction rolls
            # back.
            raise _in_progress()
        return answer


async def hand_over(
    services: Services,
    claim: IdempotencyClaim,
    prepare: Callable[[Connection], Awaitable[Prepared]],
    carry_out: Callable[[Prepared], Awaitable[Response]],
) -> Response:
    """Have another process execute a request, or return the answer stored before.

    ``prepare`` checks the request in the transaction that claims the key; if it raises, the key is not
    claimed. ``carry_out`` runs without a connection. A request that ends in between leaves its claim: a
    repetition takes over after ``HAND_OVER_LEASE_SECONDS``, so ``carry_out`` must have one effect even if it
    runs several times.

    Raises ``Refusal`` ``idempotency-in-progress`` while another request with the key is at work,
    ``idempotency-key-reused`` for another body, and all that ``prepare`` and ``carry_out`` raise.
    """
    async with transaction(services.pool) as connection:
        stored = await _take(services, claim, connection)
        if stored is not None:
            return stored
        prepared = await prepare(connection)
        await connection.execute(_CLAIM, claim.key_digest, claim.fingerprint)
    try:
        answer = await carry_out(prepared)
    except Exception:
        await _end_lease(services, claim)
        raise
    # Without the lock, which a repetition may hold while it looks at the claim.
    async with transaction(services.pool) as connection:
        kept = await _keep(services, claim, connection, answer)
        await connection.execute(_END_CLAIM, claim.key_digest)
    # Not kept: after the end of the lease, a repetition took over and has stored its answer.
    return answer if kept else (await recall(services, claim) or answer)


async def _take(services: Services, claim: IdempotencyClaim, connection: Connection) -> Response | None:
    """Lock the key until the transaction ends; its stored answer, if it has one. Raises ``Refusal``."""
    if not await connection.fetchval(_LOCK, int.from_bytes(claim.key_digest[:8], signed=True)):
        raise _in_progress()
    rows: Sequence[Any] = await connection.fetch(_STATE, claim.key_digest, datetime.now(UTC))
    if any(row["fingerprint"] != claim.fingerprint for row in rows):
        raise Refusal("idempotency-key-reused")
    stored = next((row for row in rows if row["status"] is not None), None)
    if stored is None and any(row["leased"] for row in rows):
        raise _in_progress()
    return _answer_of(services, claim, stored)


async def _keep(
    services: Services, claim: IdempotencyClaim, connection: Connection, answer: Response
) -> bool:
    """Store ``answer``; whether the key had none yet."""
    sealed = services.vault.seal(SEAL_PURPOSE, bytes(answer.body), claim.key_digest)
    await connection.execute(_EXPIRE, claim.key_digest, datetime.now(UTC))
    kept = (claim.key_digest, claim.fingerprint, answer.status_code, sealed)
    return bool(await connection.fetchval(_KEEP, *kept))


async def _end_lease(services: Services, claim: IdempotencyClaim) -> None:
    """End the lease, so that a repetition can take over at once."""
    try:
        async with connected(services.pool) as connection:
            await connection.execute(_END_LEASE, claim.key_digest)
    except CONNECTION_FAILURES as failure:
        _log.info("lease_left", error=type(failure).__name__)


async def keep_refusal(services: Services, claim: IdempotencyClaim, refused: Response) -> Response:
    """Store a refusal for repetitions; if another answer was stored meanwhile, return that one."""

    async def nothing(_connection: Connection) -> Response:
        return refused

    return await once(services, claim, nothing)


def _in_progress() -> Refusal:
    return Refusal("idempotency-in-progress", headers={"Retry-After": "1"})


def _answer_of(services: Services, claim: IdempotencyClaim, row: Any) -> Response | None:
    if row is None:
        return None
    if row["fingerprint"] != claim.fingerprint:
        raise Refusal("idempotency-key-reused")
    return replayed(row["status"], services.vault.open(SEAL_PURPOSE, row["body"], claim.key_digest))
