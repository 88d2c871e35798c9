"""Operations on deliveries: list them with their attempts, redeliver an event, and send a test event."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query
from starlette.responses import Response

from api.database.pool import Connection, fetch_row
from api.events.log import write
from api.events.routes import EVENT_KEPT
from api.http.answers import json_response
from api.http.fields import Id
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Empty, KeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import page, page_model
from api.operations.route import new_router
from api.webhook_endpoints.routes import FIND
from api.webhook_endpoints.views import DeliveriesQuery, DeliveryView, show_delivery
from engine.instant import to_datetime, to_text

router = new_router("Webhooks")

TEST_EVENT: Final = "webhook_endpoint.tested"
"""The relay leaves this type out (``actors/outbox/sql/functions/relay_events.sql``)."""

_SELECT: Final = """
    SELECT r.id::text, r.event_id::text, e.type AS event_type, r.redelivery, r.state, r.failure,
           r.next_attempt_at, r.created_at,
           (SELECT coalesce(json_agg(json_build_object(
                'number', a.number,
                'started_at', to_char(a.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                'latency_ms', a.latency_ms, 'status_code', a.status_code, 'error', a.error
            ) ORDER BY a.number), '[]')::text
            FROM delivery_attempts a WHERE a.delivery_id = r.id) AS attempts
    FROM deliveries r
    LEFT JOIN events e ON e.tenant_id = r.tenant_id AND e.live = r.live AND e.id = r.event_id
        AND e.row_id = ANY (event_rows_of(ARRAY[r.event_id]))
"""
# A separate index serves each half of the union.
_OF_EVENT: Final = """
    r.id IN (SELECT id FROM deliveries WHERE event_id = ?::uuid AND NOT redelivery
             UNION ALL SELECT id FROM deliveries WHERE event_id = ?::uuid AND redelivery)
"""
# A literal instead of a parameter, so that the planner can use the partial index on failed deliveries.
_FAILED: Final = "r.state = 'failed'"
_EVENT: Final = (
    "SELECT 1 FROM events r WHERE row_id = ANY (event_rows_of(ARRAY[$1::uuid])) AND id = $1::uuid"
    f" AND tenant_id = $2 AND live = $3 AND {EVENT_KEPT}"
)
# The lock prevents deletion or disabling of the endpoint while its delivery is written.
_ENDPOINT: Final = f"{FIND} FOR SHARE"
_INSERT: Final = """
    INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, redelivery, state, next_attempt_at,
                            created_at)
    VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $7)
"""


class RedeliveryInput(Input):
    """The endpoint that receives the event."""

    endpoint_id: Id


class RedeliveryView(View):
    """A requested delivery."""

    delivery_id: Id
    event_id: Id
    endpoint_id: Id
    status: Literal["pending"]


@router.get(
    "/v1/webhook-endpoints/{id}/deliveries",
    response_model=page_model("WebhookDeliveries", DeliveryView),
    responses=refusals("invalid-cursor", "not-found"),
)
async def list_webhook_deliveries(
    endpoint_id: PathId, query: Annotated[DeliveriesQuery, Query()], call: ReadCall
) -> Response:
    """List the deliveries to a webhook endpoint, newest first, each with its attempts.

    Deliveries are kept as long as events: for 30 days.
    """
    caller, failed = call.caller, query.state == "failed"
    if await fetch_row(call.services.pool, FIND, endpoint_id, caller.tenant_id, caller.live) is None:
        raise not_found()
    return await page(
        call.services,
        caller,
        query,
        table="deliveries",
        select=_SELECT,
        filters={"r.endpoint_id = ?::uuid": endpoint_id, _OF_EVENT: query.event_id},
        scanned={"r.state = ?": None if failed else query.state},
        show=show_delivery,
        always=_FAILED if failed else "true",
    )


@router.post(
    "/v1/events/{id}/redeliver",
    status_code=202,
    response_model=RedeliveryView,
    responses=refusals("not-found", "webhook-endpoint-disabled"),
)
async def redeliver_event(event_id: PathId, given: RedeliveryInput, call: KeyedCall) -> Response:
    """Send a past event to one endpoint once more.

    The delivery has the same body byte for byte, a new signature and its own retry schedule. The endpoint
    need not be subscribed to the event type. Events can be redelivered as long as they are kept: for 30 days.
    """
    services, caller = call.services, call.caller
    endpoint_id = given.endpoint_id

    async def work(connection: Connection) -> Response:
        of_caller = (caller.tenant_id, caller.live)
        event = await connection.fetchval(_EVENT, event_id, *of_caller)
        endpoint = await connection.fetchrow(_ENDPOINT, endpoint_id, *of_caller)
        if event is None or endpoint is None:
            raise not_found()
        if endpoint["status"] == "disabled":
            raise Refusal("webhook-endpoint-disabled")
        delivery_id, now = services.new_id(), to_datetime(services.clock.now_ms())
        await connection.execute(_INSERT, delivery_id, *of_caller, event_id, endpoint_id, True, now)
        delivery = {"delivery_id": delivery_id, "event_id": event_id, "endpoint_id": endpoint_id}
        await record_act(connection, call, Change("event", event_id, None, delivery))
        return json_response(202, delivery | {"status": "pending"})

    return await once(services, call.claim, work)


@router.post(
    "/v1/webhook-endpoints/{id}/test",
    status_code=202,
    response_model=RedeliveryView,
    responses=refusals("not-found", "webhook-endpoint-disabled"),
)
async def send_test_event(endpoint_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Send a test event to a webhook endpoint.

    The event has the type `webhook_endpoint.tested`. It is signed and retried as every other one, and goes to
    this endpoint only, whatever the endpoint subscribes to.
    """
    services, caller = call.services, call.caller

    async def work(connection: Connection) -> Response:
        of_caller = (caller.tenant_id, caller.live)
        endpoint = await connection.fetchrow(_ENDPOINT, endpoint_id, *of_caller)
        if endpoint is None:
            raise not_found()
        if endpoint["status"] == "disabled":
            raise Refusal("webhook-endpoint-disabled")
        event_id, delivery_id, now_ms = services.new_id(), services.new_id(), services.clock.now_ms()
        data = {"endpoint_id": endpoint_id, "occurred_at": to_text(now_ms)}
        await write(connection, event_id, caller, TEST_EVENT, data, now_ms)
        at = to_datetime(now_ms)
        await connection.execute(_INSERT, delivery_id, *of_caller, event_id, endpoint_id, False, at)
        delivery = {"delivery_id": delivery_id, "event_id": event_id, "endpoint_id": endpoint_id}
        await record_act(connection, call, Change("webhook_endpoint", endpoint_id, None, delivery))
        return json_response(202, delivery | {"status": "pending"})

    return await once(services, call.claim, work)
