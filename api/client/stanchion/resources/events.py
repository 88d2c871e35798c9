"""Past events, and where they are sent."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Literal, Unpack

from stanchion import inputs, records
from stanchion.operations import PAGE_SIZE, Ask, Family, Way, operation, rows


class Events(Family[Way]):
    """The event log of the last 30 days."""

    @operation("GET", "/v1/events/{id}")
    def get(self, id_: str) -> Ask[records.Event]:
        """One event, as it is delivered."""
        return Ask(id_)

    @rows("/v1/events")
    def list(
        self,
        *,
        types: Sequence[str] = (),
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Ask[records.Event]:
        """``from_`` and ``to``: a half-open window of instants."""
        return Ask(query={"types": ",".join(types) or None, "from": from_, "to": to, "limit": page_size})

    @operation("GET", "/v1/event-types")
    def types(self) -> Ask[builtins.list[records.EventType]]:
        """The catalogue: all types, with a schema for the data of each."""
        return Ask(member="data")

    @operation("POST", "/v1/events/{id}/redeliver")
    def redeliver(
        self, id_: str, *, endpoint_id: str, idempotency_key: str | None = None
    ) -> Ask[records.Redelivery]:
        """Send an event to one endpoint once more."""
        return Ask(id_, body={"endpoint_id": endpoint_id}, key=idempotency_key)


class WebhookEndpoints(Family[Way]):
    """Where events are sent, and what has become of each delivery."""

    @operation("POST", "/v1/webhook-endpoints")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.WebhookEndpointFields]
    ) -> Ask[records.WebhookEndpointSecret]:
        """A new endpoint, answered with its signing secret."""
        return Ask(body=fields, key=idempotency_key)

    @operation("GET", "/v1/webhook-endpoints/{id}")
    def get(self, id_: str) -> Ask[records.WebhookEndpoint]:
        """One endpoint."""
        return Ask(id_)

    @operation("PATCH", "/v1/webhook-endpoints/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.WebhookEndpointChange]
    ) -> Ask[records.WebhookEndpoint]:
        """Change some members."""
        return Ask(id_, body=change, key=idempotency_key)

    @operation("DELETE", "/v1/webhook-endpoints/{id}")
    def delete(self, id_: str, *, idempotency_key: str | None = None) -> Ask[None]:
        """Its deliveries end."""
        return Ask(id_, key=idempotency_key)

    @operation("POST", "/v1/webhook-endpoints/{id}/rotate-secret")
    def rotate_secret(
        self, id_: str, *, idempotency_key: str | None = None
    ) -> Ask[records.WebhookEndpointSecret]:
        """A new signing secret; the one before signs as well for 24 hours."""
        return Ask(id_, body={}, key=idempotency_key)

    @rows("/v1/webhook-endpoints")
    def list(self, *, page_size: int = PAGE_SIZE) -> Ask[records.WebhookEndpoint]:
        """All endpoints."""
        return Ask(query={"limit": page_size})

    @rows("/v1/webhook-endpoints/{id}/deliveries")
    def deliveries(
        self,
        id_: str,
        *,
        state: Literal["pending", "delivered", "failed"] | None = None,
        event_id: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Ask[records.Delivery]:
        """The deliveries of the last 30 days with their attempts."""
        return Ask(id_, query={"state": state, "event_id": event_id, "limit": page_size})
