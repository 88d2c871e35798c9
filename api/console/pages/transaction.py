"""A transaction: its amounts, its life, its trace, its replay, and the deliveries of its events."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.life import timeline
from api.console.lookups import one, rows_of
from api.console.simulated import simulation_of
from api.console.view import PageRoute, View
from engine.limits import CONSOLE_DELIVERY_ENDPOINTS_MAX, CONSOLE_DELIVERY_EVENTS_MAX, PAGE_LIMIT_MAX

SALES: Final = frozenset({"purchase", "force_post"})
OPEN: Final = frozenset({"pending", "partially_cleared"})
PRESENTED: Final = frozenset({"partially_cleared", "cleared", "posted"})


async def transaction(request: Request, view: View) -> Response:
    """The page."""
    found = await view.api.require(_path(request))
    return await transaction_page(view, found)


async def replay(request: Request, view: View) -> Response:
    """The page with the comparison of the recorded decisions and the recomputed ones."""
    found = await view.api.require(_path(request))
    replayed = await view.api.post(f"{_path(request)}/replay")
    if isinstance(replayed, Problem):
        return await transaction_page(view, found, problem=replayed)
    return await transaction_page(view, found, replayed=replayed)


async def deliveries(request: Request, view: View) -> Response:
    """The deliveries of the transaction's newest events, which the page loads after itself."""
    events = rows_of(
        await view.api.get(
            "/v1/events",
            authorization_id=request.path_params["id"],
            limit=CONSOLE_DELIVERY_EVENTS_MAX,
        )
    )
    endpoints = rows_of(await view.api.get("/v1/webhook-endpoints", limit=CONSOLE_DELIVERY_ENDPOINTS_MAX))
    found = []
    for endpoint in endpoints:
        path = f"/v1/webhook-endpoints/{endpoint['id']}/deliveries"
        for event in events:
            rows = rows_of(await view.api.get(path, event_id=event["id"]))
            found += [(endpoint, each) for each in rows]
    found.sort(key=lambda pair: pair[1]["created_at"], reverse=True)
    return view.html("transaction/deliveries.html", deliveries=found, endpoints=endpoints)


async def transaction_page(
    view: View,
    found: dict[str, Any],
    *,
    replayed: dict[str, Any] | None = None,
    problem: Problem | None = None,
) -> Response:
    """The page of a transaction; with ``problem`` after a refused action."""
    of_life = {"authorization_id": found["id"], "limit": PAGE_LIMIT_MAX}
    entries = events = None
    if view.may("list_ledger_entries"):
        entries = await view.api.get("/v1/ledger-entries", of_life)
    if view.may("list_events"):
        events = await view.api.get("/v1/events", of_life)
    return view.html(
        "transaction/page.html",
        transaction=found,
        acts=await _acts(view, found),
        card=await one(view, "get_card", f"/v1/cards/{found['card_id']}"),
        programme=await one(view, "get_program", f"/v1/programs/{found['programme_id']}"),
        steps=timeline(found, rows_of(entries), rows_of(events)),
        replayed=replayed,
        problem=problem,
    )


async def _acts(view: View, found: dict[str, Any]) -> frozenset[str]:
    """What the simulated network can still do to the transaction."""
    if found["kind"] not in SALES or found["status"] == "declined":
        return frozenset()
    simulation = await simulation_of(view, found)
    if simulation is None:
        return frozenset()
    acts = {"refund"} if found["status"] in PRESENTED else set()
    # A force post is no authorization that a follow-up could refer to.
    if simulation["operation"] == "spend":
        acts.add("clear")
        if found["status"] in OPEN:
            acts |= {"reverse", "increment", *(["expire"] if found["hold_id"] else [])}
    return frozenset(acts)


def _path(request: Request) -> str:
    return f"/v1/transactions/{request.path_params['id']}"


PAGES: Final = (
    PageRoute("/transactions/{id}", transaction, operation="get_transaction"),
    PageRoute("/transactions/{id}/replay", replay, method="POST", operation="replay_transaction"),
    PageRoute("/transactions/{id}/deliveries", deliveries, operation="list_webhook_deliveries"),
)
