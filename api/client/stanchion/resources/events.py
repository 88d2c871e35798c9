"""Past events, webhook endpoints and their deliveries."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Literal

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Events(Resource[AnyTransport]):
    """The event log of the last 30 days."""

    @operation("GET", "/v1/events/{id}")
    def get(self, id_: str) -> Call[records.Event]:
        """One event, as it is delivered."""
        return Call(id_)

    @rows("/v1/events")
    def list(
        self,
        *,
        types: Sequence[str] = (),
        authorization_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Event]:
        """All events, or those of the given types, about one authorization, in the half-open window from
        ``from_`` to ``to``."""
        return Call(
            query={
                "types": ",".join(types) or None,
                "authorization_id": authorization_id,
                "from": from_,
                "to": to,
                "limit": page_size,
            }
        )

    @operation("GET", "/v1/event-types")
    def types(self) -> Call[builtins.list[records.EventType]]:
        """All event types, with a schema for the data of each."""
        return Call(member="data")

    @operation("POST", "/v1/events/{id}/redeliver")
    def redeliver(
        self, id_: str, *, endpoint_id: str, idempotency_key: str | None = None
    ) -> Call[records.Redelivery]:
        """Send an event to one endpoint again."""
        return Call(id_, body={"endpoint_id": endpoint_id}, key=idempotency_key)


class WebhookEndpoints(Resource[AnyTransport]):
    """Webhook endpoints and their deliveries."""

    @operation("POST", "/v1/webhook-endpoints")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.WebhookEndpointFields]
    ) -> Call[records.WebhookEndpointSecret]:
        """Create an endpoint; the answer contains its signing secret."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/webhook-endpoints/{id}")
    def get(self, id_: str) -> Call[records.WebhookEndpoint]:
        """One endpoint."""
        return Call(id_)

    @operation("PATCH", "/v1/webhook-endpoints/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.WebhookEndpointChange]
    ) -> Call[records.WebhookEndpoint]:
        """Change some members."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("DELETE", "/v1/webhook-endpoints/{id}")
    def delete(self, id_: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Delete an endpoint; its deliveries end."""
        return Call(id_, key=idempotency_key)

    @operation("POST", "/v1/webhook-endpoints/{id}/rotate-secret")
    def rotate_secret(
        self, id_: str, *, idempotency_key: str | None = None
    ) -> Call[records.WebhookEndpointSecret]:
        """Create a new signing secret; for 24 hours deliveries are also signed with the previous one."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/webhook-endpoints/{id}/test")
    def test(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.Redelivery]:
        """Send a test event to an enabled endpoint, whatever it subscribes to."""
        return Call(id_, body={}, key=idempotency_key)

    @rows("/v1/webhook-endpoints")
    def list(self, *, page_size: int = PAGE_SIZE) -> Call[records.WebhookEndpoint]:
        """All endpoints."""
        return Call(query={"limit": page_size})

    @rows("/v1/webhook-endpoints/{id}/deliveries")
    def deliveries(
        self,
        id_: str,
        *,
        state: Literal["pending", "delivered", "failed"] | None = None,
        event_id: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Delivery]:
        """The deliveries of the last 30 days with their attempts, optionally filtered."""
        return Call(id_, query={"state": state, "event_id": event_id, "limit": page_size})
