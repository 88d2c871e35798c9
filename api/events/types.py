"""The catalogue of event types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from api.http.fields import example
from api.http.validation import View
from api.operations.call import ReadCall
from api.operations.pagination import page_response
from api.operations.route import new_router
from engine.webhooks.catalogue import CATALOGUE, EventType

router = new_router("Events")


class EventTypeView(View):
    """A type of event. ``planned`` ones have their final schema but are not delivered yet."""

    type: str
    status: Literal["live", "planned"]
    description: str
    schema_: Annotated[dict[str, Any], Field(alias="schema"), example({"type": "object"})]
    """JSON Schema (draft 2020-12) of the event's `data`. Members may be added; those listed stay."""


class EventTypesView(View):
    """The whole catalogue."""

    data: list[EventTypeView]
    has_more: Literal[False]
    next_cursor: None


@router.get("/v1/event-types", response_model=EventTypesView)
async def list_event_types(call: ReadCall) -> Response:
    """List the types of events, with a JSON schema for the data of each.

    The list is short and comes whole. The types of gateway mode are `planned` in an installation that does
    not enable it.
    """
    gateway = call.services.settings.enable_gateway
    data = [_show(entry, gateway=gateway) for entry in CATALOGUE.values()]
    return page_response(data)


def _show(entry: EventType, *, gateway: bool) -> dict[str, Any]:
    absent = not gateway and ".posting_instruction." in entry.type
    return {
        "type": entry.type,
        "status": "planned" if absent else entry.status,
        "description": entry.description,
        "schema": entry.schema,
    }
