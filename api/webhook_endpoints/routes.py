"""Creating, reading, changing and deleting endpoints; rotating their secrets.

A secret is returned only in the answer that creates it, and in repetitions of that answer under the same
idempotency key. The stored answer is sealed.
"""

from __future__ import annotations

import os
from typing import Annotated, Final

import asyncpg
from fastapi import Query
from starlette.responses import Response

from actors.webhooks.signing_secrets import SigningSecrets
from api.access.tokens import Caller
from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Empty, KeyedCall, OptionallyKeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.operations.targets import require_callable
from api.webhook_endpoints.views import (
    WebhookEndpointChange,
    WebhookEndpointInput,
    WebhookEndpointSecretView,
    WebhookEndpointView,
    show_endpoint,
)
from engine.limits import WEBHOOK_ENDPOINTS_MAX, WEBHOOK_SECRET_OVERLAP_HOURS
from engine.webhooks.signature import SECRET_RANDOM_BYTES, secret_of

router = new_router("Webhooks")

# The expiry of secrets follows the database's clock, and so do these statements. An expired secret stays in
# its column until the next rotation, but signs no deliveries.
_SELECT: Final = """
    SELECT r.id::text, r.url, r.event_types, r.description, r.status,
           CASE WHEN r.previous_secret_expires_at > now() THEN r.previous_secret_expires_at END
               AS previous_secret_expires_at,
           r.created_at, r.updated_at
    FROM webhook_endpoints r
"""
FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
# Serializes the creations of one tenant, so that concurrent requests cannot exceed the limit.
_LOCK_TENANT: Final = "SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE"
_COUNT: Final = "SELECT count(*) FROM webhook_endpoints WHERE tenant_id = $1 AND live = $2"
_INSERT: Final = """
    INSERT INTO webhook_endpoints (id, tenant_id, live, url, event_types, description, status, secret_sealed,
                                   created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, 'enabled', $7, now(), now())
"""
_UPDATE: Final = """
    UPDATE webhook_endpoints
    SET url = $2, event_types = $3, description = $4, status = $5, updated_at = now()
    WHERE id = $1::uuid
"""
_ROTATE: Final = """
    UPDATE webhook_endpoints
    SET secret_sealed = $2, previous_secret_sealed = secret_sealed, updated_at = now(),
        previous_secret_expires_at = now() + make_interval(hours => $3)
    WHERE id = $1::uuid
"""
_DELETE: Final = "DELETE FROM webhook_endpoints WHERE id = $1::uuid"
_COLUMNS: Final = ("url", "event_types", "description", "status")
KIND: Final = "webhook_endpoint"


@router.post(
    "/v1/webhook-endpoints",
    status_code=201,
    response_model=WebhookEndpointSecretView,
    responses=refusals("target-refused", "webhook-endpoint-limit"),
)
async def create_webhook_endpoint(given: WebhookEndpointInput, call: KeyedCall) -> Response:
    """Create a webhook endpoint.

    The answer carries the signing `secret` once; it cannot be read again. A tenant has at most 16 endpoints
    in each mode. Endpoints can subscribe to event types that are still planned.
    """
    services, caller = call.services, call.caller
    await require_callable(services, caller, given.url, "url")

    async def work(connection: Connection) -> Response:
        await connection.execute(_LOCK_TENANT, caller.tenant_id)
        if await connection.fetchval(_COUNT, caller.tenant_id, caller.live) >= WEBHOOK_ENDPOINTS_MAX:
            raise Refusal("webhook-endpoint-limit")
        endpoint_id, secret = services.new_id(), _new_secret()
        await connection.execute(
            _INSERT,
            endpoint_id,
            caller.tenant_id,
            caller.live,
            given.url,
            given.event_types,
            given.description,
            SigningSecrets(services.vault).seal(endpoint_id, secret),
        )
        shown = show_endpoint(await _require(connection, caller, endpoint_id))
        await record_act(connection, call, Change(KIND, endpoint_id, None, shown))
        return json_response(201, shown | {"secret": secret})

    return await once(services, call.claim, work)


@router.get("/v1/webhook-endpoints", response_model=page_model("WebhookEndpoints", WebhookEndpointView))
async def list_webhook_endpoints(query: Annotated[PageQuery, Query()], call: ReadCall) -> Response:
    """List webhook endpoints, newest first."""
    return await page(
        call.services,
        call.caller,
        query,
        table="webhook_endpoints",
        select=_SELECT,
        filters={},
        show=show_endpoint,
    )


@router.get("/v1/webhook-endpoints/{id}", response_model=WebhookEndpointView, responses=refusals("not-found"))
async def get_webhook_endpoint(endpoint_id: PathId, call: ReadCall) -> Response:
    """Get a webhook endpoint."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, endpoint_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show_endpoint(row))


@router.patch(
    "/v1/webhook-endpoints/{id}",
    response_model=WebhookEndpointView,
    responses=refusals("not-found", "target-refused"),
)
async def update_webhook_endpoint(
    endpoint_id: PathId, given: WebhookEndpointChange, call: OptionallyKeyedCall
) -> Response:
    """Change a webhook endpoint.

    Members that are left out stay as they are. Pending deliveries go to the new `url`.
    """
    services, caller = call.services, call.caller
    changes = given.model_dump(include=given.model_fields_set)
    if "url" in changes:
        if await fetch_row(services.pool, FIND, endpoint_id, caller.tenant_id, caller.live) is None:
            raise not_found()
        await require_callable(services, caller, given.url, "url")

    async def work(connection: Connection) -> Response:
        row = await _require(connection, caller, endpoint_id, lock=True)
        before = {name: row[name] for name in _COLUMNS}
        after = before | changes
        if after != before:
            await connection.execute(_UPDATE, endpoint_id, *(after[name] for name in _COLUMNS))
            row = await _require(connection, caller, endpoint_id)
            await record_act(connection, call, Change(KIND, endpoint_id, before, after))
        return json_response(200, show_endpoint(row))

    return await once(services, call.claim, work)


@router.delete("/v1/webhook-endpoints/{id}", status_code=204, responses=refusals("not-found"))
async def delete_webhook_endpoint(
    endpoint_id: PathId, call: OptionallyKeyedCall, _body: Empty = NO_MEMBERS
) -> Response:
    """Delete a webhook endpoint.

    Its secrets are deleted at once. Its pending deliveries are not sent.
    """
    caller = call.caller

    async def work(connection: Connection) -> Response:
        row = await _require(connection, caller, endpoint_id, lock=True)
        await connection.execute(_DELETE, endpoint_id)
        await record_act(connection, call, Change(KIND, endpoint_id, show_endpoint(row), None))
        return Response(status_code=204)

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/webhook-endpoints/{id}/rotate-secret",
    response_model=WebhookEndpointSecretView,
    responses=refusals("not-found"),
)
async def rotate_webhook_secret(endpoint_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Rotate the signing secret of a webhook endpoint.

    The answer carries the new `secret` once. For 24 hours deliveries are signed with the previous secret as
    well; another rotation within that time invalidates the older of the two.
    """
    services, caller = call.services, call.caller

    async def work(connection: Connection) -> Response:
        before = show_endpoint(await _require(connection, caller, endpoint_id, lock=True))
        secret = _new_secret()
        sealed = SigningSecrets(services.vault).seal(endpoint_id, secret)
        await connection.execute(_ROTATE, endpoint_id, sealed, WEBHOOK_SECRET_OVERLAP_HOURS)
        after = show_endpoint(await _require(connection, caller, endpoint_id))
        await record_act(connection, call, Change(KIND, endpoint_id, before, after))
        return json_response(200, after | {"secret": secret})

    return await once(services, call.claim, work)


async def _require(
    connection: Connection, caller: Caller, endpoint_id: str, *, lock: bool = False
) -> asyncpg.Record:
    """The caller's endpoint. Raises ``Refusal`` 404."""
    statement = FIND + (" FOR UPDATE" if lock else "")
    row = await connection.fetchrow(statement, endpoint_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


def _new_secret() -> str:
    return secret_of(os.urandom(SECRET_RANDOM_BYTES))
