"""API clients, managed by the owners of a tenant: each in one mode, which is the mode of its clients.

Every change locks the tenant's row and reads the caller's client again: a client that was revoked a moment
ago creates none, and two owners cannot revoke each other.
"""

from __future__ import annotations

from typing import Annotated, Final

import asyncpg
from fastapi import Query
from starlette.responses import Response

from api.access.credentials import digest_of, new_client_id, new_secret
from api.access.owners import require_owner
from api.access.tokens import Caller
from api.clients.views import (
    FIND,
    SELECT,
    ClientInput,
    ClientSecretView,
    ClientsQuery,
    ClientView,
    SecretRotation,
    show,
)
from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Empty, KeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import page, page_model
from api.operations.route import new_router
from engine.limits import CLIENTS_MAX
from engine.scopes import Mode, default_scopes, includes

router = new_router("Clients")

KIND: Final = "client"
_COUNT: Final = "SELECT count(*) FROM clients WHERE tenant_id = $1 AND live = $2 AND revoked_at IS NULL"
_OTHER_OWNER: Final = """
    SELECT EXISTS (SELECT FROM clients
                   WHERE tenant_id = $1 AND live = $2 AND owner AND revoked_at IS NULL AND id <> $3::uuid)
"""
_INSERT: Final = """
    INSERT INTO clients (id, tenant_id, client_id, secret_digest, name, mode, role, owner, scopes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_REVOKE: Final = "UPDATE clients SET revoked_at = now() WHERE id = $1::uuid"
_ROTATE: Final = """
    UPDATE clients
    SET secret_digest = $2, previous_secret_digest = CASE WHEN $3 > 0 THEN secret_digest END,
        previous_secret_expires_at = CASE WHEN $3 > 0 THEN now() + make_interval(hours => $3) END
    WHERE id = $1::uuid
"""
_END_TOKENS: Final = "UPDATE access_tokens SET revoked_at = now() WHERE client = $1::uuid"
_END_SESSIONS: Final = "DELETE FROM console_sessions WHERE client = $1::uuid"


@router.post(
    "/v1/clients",
    status_code=201,
    response_model=ClientSecretView,
    responses=refusals("grant-exceeds-caller", "client-limit"),
)
async def create_client(given: ClientInput, call: KeyedCall) -> Response:
    """Create an API client.

    The answer carries `client_secret` once; it cannot be read again. The client belongs to the caller's
    tenant and mode. Its role and scopes are at most those of the caller's token. A tenant has at most 100
    active clients in each mode.
    """
    caller = call.caller
    scopes = _granted(caller, given)

    async def work(connection: Connection) -> Response:
        await require_owner(connection, caller)
        if await connection.fetchval(_COUNT, caller.tenant_id, caller.live) >= CLIENTS_MAX:
            raise Refusal("client-limit")
        id_, secret, owner = call.services.new_id(), new_secret(), given.role == "owner"
        mode: Mode = "live" if caller.live else "test"
        await connection.execute(
            _INSERT,
            id_,
            caller.tenant_id,
            new_client_id(mode),
            digest_of(call.services.vault, secret),
            given.name,
            mode,
            "admin" if owner else given.role,
            owner,
            scopes,
        )
        shown = show(await _require(connection, caller, id_))
        await record_act(connection, call, Change(KIND, id_, None, shown))
        return json_response(201, shown | {"client_secret": secret})

    return await once(call.services, call.claim, work)


@router.get("/v1/clients", response_model=page_model("Clients", ClientView))
async def list_clients(query: Annotated[ClientsQuery, Query()], call: ReadCall) -> Response:
    """List API clients of the caller's mode, newest first, revoked ones included."""
    return await page(
        call.services,
        call.caller,
        query,
        table="clients",
        select=SELECT,
        filters={},
        scanned={"(r.revoked_at IS NULL) = ?": None if query.status is None else query.status == "active"},
        show=show,
    )


@router.get("/v1/clients/{id}", response_model=ClientView, responses=refusals("not-found"))
async def get_client(client: PathId, call: ReadCall) -> Response:
    """Get an API client by its `id`."""
    row = await fetch_row(call.services.pool, FIND, client, call.caller.tenant_id, call.caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


@router.post(
    "/v1/clients/{id}/revoke", response_model=ClientView, responses=refusals("not-found", "last-owner")
)
async def revoke_client(client: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Revoke an API client for ever.

    It gets no more tokens at once. Its tokens and console sessions end within a second on every API server.
    The last owner of a tenant in a mode cannot be revoked. Revoking a client again has no effect.
    """
    caller = call.caller

    async def work(connection: Connection) -> Response:
        await require_owner(connection, caller)
        before = await _require(connection, caller, client)
        if before["revoked_at"] is not None:
            return json_response(200, show(before))
        owners = (caller.tenant_id, caller.live, client)
        if before["role"] == "owner" and not await connection.fetchval(_OTHER_OWNER, *owners):
            raise Refusal("last-owner")
        await connection.execute(_REVOKE, client)
        after = show(await _require(connection, caller, client))
        await record_act(connection, call, Change(KIND, client, show(before), after))
        return json_response(200, after)

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/clients/{id}/rotate-secret",
    response_model=ClientSecretView,
    responses=refusals("not-found", "client-revoked"),
)
async def rotate_client_secret(client: PathId, given: SecretRotation, call: KeyedCall) -> Response:
    """Rotate the secret of an API client.

    The answer carries the new `client_secret` once. By default the old secret ends at once, and the client's
    tokens and console sessions end within a second on every API server. With `overlap_hours` the old secret
    works for that time; another rotation ends it.
    """
    caller = call.caller

    async def work(connection: Connection) -> Response:
        await require_owner(connection, caller)
        before = await _require(connection, caller, client)
        if before["revoked_at"] is not None:
            raise Refusal("client-revoked")
        secret = new_secret()
        # The client's row first: a grant that is under way holds it until its token can be ended, too.
        await connection.execute(_ROTATE, client, digest_of(call.services.vault, secret), given.overlap_hours)
        if given.overlap_hours == 0:
            await connection.execute(_END_TOKENS, client)
            await connection.execute(_END_SESSIONS, client)
        after = show(await _require(connection, caller, client))
        await record_act(connection, call, Change(KIND, client, show(before), after | {"secret": "rotated"}))
        return json_response(200, after | {"client_secret": secret})

    return await once(call.services, call.claim, work)


def _granted(caller: Caller, given: ClientInput) -> list[str]:
    """The scopes of the new client. Raises ``Refusal`` 403 unless the caller has its role and scopes."""
    if given.scopes is None:
        scopes = [scope for scope in default_scopes(given.role) if scope in caller.scopes]
    else:
        scopes = given.scopes
    if not includes(caller.role, given.role) or not caller.scopes.issuperset(scopes):
        raise Refusal("grant-exceeds-caller")
    return scopes


async def _require(connection: Connection, caller: Caller, client: str) -> asyncpg.Record:
    """The client of the caller's tenant and mode. Raises ``Refusal`` 404."""
    row = await connection.fetchrow(FIND, client, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row
