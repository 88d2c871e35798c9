"""Request bodies and public representations of webhook endpoints and deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from api.http.fields import HttpsAddress, Id, Instant, Text255, example, shown_instant
from api.http.validation import Input, View, broken
from api.operations.pagination import PageQuery
from engine.webhooks.catalogue import ALL_TYPES, CATALOGUE

TYPES: Final = (ALL_TYPES, *CATALOGUE)


def _known(types: list[str]) -> list[str]:
    if not set(types) <= set(TYPES):
        raise broken("not_allowed", "The value must hold event types of the catalogue, or * alone.")
    each = list(dict.fromkeys(types))
    if ALL_TYPES in each and len(each) > 1:
        raise broken("not_allowed", "* already means all types; it stands alone.")
    return each


EventTypes = Annotated[
    list[Annotated[str, Field(json_schema_extra={"enum": list(TYPES)})]],
    Field(min_length=1, max_length=len(TYPES)),
    AfterValidator(_known),
    example(["authorization.decided", "ledger.hold.captured"]),
]
Url = Annotated[HttpsAddress, example("https://hooks.example.com/stanchion")]
Description = Annotated[Text255, example("Ledger of the back office")]
Status = Literal["enabled", "disabled"]


class WebhookEndpointInput(Input):
    """A new endpoint."""

    url: Url
    """An https address on the public internet."""
    event_types: EventTypes
    """The subscribed event types. `["*"]` subscribes to all, including types that are added later."""
    description: Description | None = None


class WebhookEndpointChange(Input):
    """Parts of an endpoint to be replaced; at least one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    url: Url = ""
    event_types: Annotated[EventTypes, Field(default_factory=list)]
    description: Description | None = None
    status: Status = "enabled"
    """While it is `disabled`, it gets no deliveries; events of that time are not delivered later either."""

    @model_validator(mode="after")
    def _require_member(self) -> WebhookEndpointChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


class WebhookEndpointView(View):
    """A webhook endpoint."""

    id: Id
    url: str
    event_types: list[str]
    description: str | None
    status: Status
    previous_secret_expires_at: Instant | None
    """Until this instant, deliveries are also signed with the previous secret."""
    created_at: Instant
    updated_at: Instant


class WebhookEndpointSecretView(WebhookEndpointView):
    """A webhook endpoint with its new signing secret, which is shown only now."""

    secret: Annotated[str, example("whsec_Zm9ydHktdHdvLXJhbmRvbS1ieXRlcy1hcmUtZW5vdWdo")]


class DeliveriesQuery(PageQuery):
    """Filters of the list."""

    state: Literal["pending", "delivered", "failed"] | None = None
    event_id: Id | None = None


class AttemptView(View):
    """One delivery attempt, with the receiver's status code or the error that prevented an answer."""

    number: int
    started_at: Instant
    latency_ms: int | None
    status_code: int | None
    error: str | None
    """Failures of the call: `connection_failed` (refused, not made in time, no trusted TLS, or cut),
    `target_refused`, `resolution`, `timeout` (no answer in time), `protocol` (the answer is not HTTP).
    Failures of the platform: `lost` (the outcome is unknown), `interrupted`, `secret_unreadable`."""


class DeliveryView(View):
    """A delivery of an event to one endpoint, with its attempts."""

    id: Id
    event_id: Id
    event_type: str | None
    """`null` once the event has been deleted."""
    redelivery: bool
    state: Literal["pending", "delivered", "failed"]
    failure: str | None
    """Why it is `failed`: `attempts_exhausted`, `endpoint_disabled`, `event_expired`."""
    attempts: list[AttemptView]
    next_attempt_at: Instant | None
    created_at: Instant


def show_endpoint(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of an endpoint's row."""
    expires_at = row["previous_secret_expires_at"]
    return {
        "id": row["id"],
        "url": row["url"],
        "event_types": row["event_types"],
        "description": row["description"],
        "status": row["status"],
        "previous_secret_expires_at": None if expires_at is None else shown_instant(expires_at),
        "created_at": shown_instant(row["created_at"]),
        "updated_at": shown_instant(row["updated_at"]),
    }


def show_delivery(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a delivery's row."""
    due = row["next_attempt_at"]
    return {
        **row,
        "attempts": msgspec.json.decode(row["attempts"]),
        "next_attempt_at": None if due is None else shown_instant(due),
        "created_at": shown_instant(row["created_at"]),
    }
