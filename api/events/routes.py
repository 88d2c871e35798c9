"""Operations on the event log. It lists events, not deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Final

import asyncpg
import orjson
from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from api.database.pool import fetch, fetch_row
from api.http.answers import json_response
from api.http.fields import Id, Instant, example, separated, shown_instant
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import View, broken
from api.operations.call import Call, PathId, ReadCall
from api.operations.pagination import Keys, WindowQuery, page, page_model
from api.operations.route import new_router
from engine.ids import Derived, derive
from engine.limits import EVENT_RETENTION_DAYS
from engine.webhooks.catalogue import CATALOGUE

router = new_router("Events")

_SELECT: Final = "SELECT r.id::text, r.type, r.created_at, r.data FROM events r"
_COMMANDS: Final = """
    SELECT command::json ->> 'id' AS id FROM journal
    WHERE authorization_id = $1::uuid AND kind <> 'authorize'
"""
_OF_COMMAND: Final = (Derived.EVENT_FIRST, Derived.EVENT_SECOND, Derived.EVENT_THIRD, Derived.EVENT_FOURTH)
EVENT_KEPT: Final = f"r.created_at > now() - interval '{EVENT_RETENTION_DAYS} days'"
# The second event of an approval is in the row of the first: indexes have the id of the row.
_KEYS: Final = Keys(
    order="r.row_id DESC, r.id DESC",
    named="r.row_id = ANY (event_rows_of(?::uuid[])) AND r.id = ANY (?::uuid[])",
    before="r.row_id <= greatest(?::uuid, other_of_pair(?::uuid)) AND r.id < ?::uuid",
)
_FIND: Final = (
    f"{_SELECT} WHERE r.row_id = ANY (event_rows_of(ARRAY[$1::uuid])) AND r.id = $1::uuid"
    f" AND r.tenant_id = $2 AND r.live = $3 AND {EVENT_KEPT}"
)


def _types(value: object) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(separated(value)))
    if not CATALOGUE.keys() >= set(types):
        raise broken("not_allowed", "The value holds event types of the catalogue, separated by commas.")
    return types


class EventsQuery(WindowQuery):
    """Filters of the list."""

    types: (
        Annotated[
            tuple[str, ...],
            BeforeValidator(_types),
            Field(json_schema_extra={"type": "string", "items": None}),
            example("authorization.decided,card.updated"),
        ]
        | None
    ) = None
    """Event types, separated by commas."""
    authorization_id: Id | None = None
    """The transaction that the events are about: decisions, holds and postings of its whole life."""


class EventView(View):
    """An event in the envelope that webhooks get."""

    id: Id
    type: str
    created_at: Instant
    data: dict[str, Any]


@router.get(
    "/v1/events", response_model=page_model("Events", EventView), responses=refusals("invalid-cursor")
)
async def list_events(query: Annotated[EventsQuery, Query()], call: ReadCall) -> Response:
    """List events, newest first.

    Events are kept for 30 days.
    """
    around = {condition.replace("r.id", "r.row_id"): id_ for condition, id_ in query.around_window.items()}
    filters = {_KEYS.named: await _ids_of_life(call, query), **around}
    return await page(
        call.services,
        call.caller,
        query,
        table="events",
        select=_SELECT,
        filters=filters,
        scanned={"r.type = ANY(?::text[])": query.types, **query.window},
        show=_show,
        always=EVENT_KEPT,
        keys=_KEYS,
    )


async def _ids_of_life(call: Call, query: EventsQuery) -> list[str] | None:
    """The ids that events about the given transaction can have: ids of events derive from their commands."""
    if query.authorization_id is None:
        return None
    rows = await fetch(call.services.pool, _COMMANDS, query.authorization_id)
    commands = [query.authorization_id, *(row["id"] for row in rows)]
    return [derive(id_, kind) for id_ in commands for kind in _OF_COMMAND]


@router.get("/v1/events/{id}", response_model=EventView, responses=refusals("not-found"))
async def get_event(event_id: PathId, call: ReadCall) -> Response:
    """Get an event."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, event_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, _show(row))


def _show(row: asyncpg.Record) -> dict[str, Any]:
    """``data`` has the exact bytes that are delivered."""
    return {
        "id": row["id"],
        "type": row["type"],
        "created_at": shown_instant(row["created_at"]),
        "data": orjson.Fragment(row["data"]),
    }
