"""Events, webhook endpoints and deliveries."""

from __future__ import annotations

from typing import Any, Literal

from stanchion.compat import TypedDict


class Event(TypedDict):
    """The envelope of an event; deduplicate on ``id``."""

    id: str
    type: str
    created_at: str
    data: dict[str, Any]


class EventType(TypedDict):
    """A type of event; ``schema`` is the JSON Schema of its ``data``."""

    type: str
    status: Literal["live", "planned"]
    description: str
    schema: dict[str, Any]


class WebhookEndpoint(TypedDict):
    """An address that receives events."""

    id: str
    url: str
    event_types: list[str]
    description: str | None
    status: Literal["enabled", "disabled"]
    previous_secret_expires_at: str | None
    created_at: str
    updated_at: str


class WebhookEndpointSecret(WebhookEndpoint):
    """An endpoint with its new signing secret, which the API returns only once."""

    secret: str


class Attempt(TypedDict):
    """One attempt of a delivery."""

    number: int
    started_at: str
    latency_ms: int | None
    status_code: int | None
    error: str | None


class Delivery(TypedDict):
    """A delivery of an event to one endpoint."""

    id: str
    event_id: str
    event_type: str | None
    redelivery: bool
    state: Literal["pending", "delivered", "failed"]
    failure: str | None
    attempts: list[Attempt]
    next_attempt_at: str | None
    created_at: str


class Redelivery(TypedDict):
    """A requested delivery of a past event, or of a test event."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    status: str
