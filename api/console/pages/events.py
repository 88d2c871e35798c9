"""The log of events, and each event with its deliveries."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.pages.webhooks import shown_json
from api.console.time_window import window_of
from api.console.view import PageRoute, View
from engine.limits import PAGE_LIMIT_MAX
from engine.webhooks.catalogue import CATALOGUE


class Subject(NamedTuple):
    """An object that an event names."""

    label: str
    id: str
    page: str
    """Its page below the console."""


_PAGES: Final = {
    "card_id": "/cards",
    "card_product_id": "/card-products",
    "authorization_id": "/transactions",
    "cardholder_id": "/cardholders",
    "rule_id": "/rules",
    "endpoint_id": "/webhooks",
    "transfer_id": "/transfers",
    "account_id": "/accounts",
    "programme_id": "/programmes",
}
"""The console's pages by member of an event's data, from the closest object to the farthest."""


def subjects(event: dict[str, Any]) -> list[Subject]:
    """The objects that an event names, the closest first."""
    data: dict[str, Any] = event["data"]
    kind = event["type"].partition(".")[0]
    # Cards and card products are events' data themselves, under their own `id`.
    known = {f"{kind}_id": data["id"], **data} if "id" in data else data
    return [
        Subject(name.removesuffix("_id").replace("_", " "), known[name], f"{page}/{known[name]}")
        for name, page in _PAGES.items()
        if known.get(name)
    ]


async def events(request: Request, view: View) -> Response:
    """Events of the last 30 days, filtered by type and time."""
    type_, window = request.query_params.get("type", ""), window_of(view)
    found, pager = await view.paged("/v1/events", types=type_ if type_ in CATALOGUE else None, **window.query)
    return view.html(
        "events/list.html",
        events=[each | {"subjects": subjects(each)} for each in found["data"]],
        pager=pager,
        types=list(CATALOGUE),
        type=type_,
        window=window,
    )


async def event(request: Request, view: View) -> Response:
    """One event: what receivers get, and what the endpoints have answered."""
    id_ = request.path_params["id"]
    found = await view.api.require(f"/v1/events/{id_}")
    return view.html(
        "events/event.html",
        event=found,
        subjects=subjects(found),
        payload=shown_json(found),
        about=CATALOGUE[found["type"]].description if found["type"] in CATALOGUE else "",
        endpoints=await _endpoints(view, found["id"]),
    )


async def _endpoints(view: View, event_id: str) -> list[dict[str, Any]] | None:
    """Every endpoint with the deliveries of the event to it; ``None`` if the session may not see them."""
    if not (view.may("list_webhook_endpoints") and view.may("list_webhook_deliveries")):
        return None
    found = (await view.api.require("/v1/webhook-endpoints", limit=PAGE_LIMIT_MAX))["data"]
    answers = await asyncio.gather(
        *(view.api.get(f"/v1/webhook-endpoints/{each['id']}/deliveries", event_id=event_id) for each in found)
    )
    return [
        each | {"deliveries": [] if isinstance(answer, Problem) else answer["data"]}
        for each, answer in zip(found, answers, strict=True)
    ]


PAGES: Final = (
    PageRoute("/events", events, operation="list_events", label="Events", group="Developers"),
    PageRoute("/events/{id}", event, operation="get_event"),
)
