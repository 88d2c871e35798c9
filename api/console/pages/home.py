"""The first page: decisions, decline reasons, stand-in, webhooks and the newest transactions, live."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console import figures
from api.console.templating import NO_STORE
from api.console.view import PageRoute, View
from api.database.pool import connected
from api.http.answers import json_bytes


async def dashboard(_request: Request, view: View) -> Response:
    """The page without its panels, which the browser loads separately."""
    return view.html("dashboard.html")


async def panels(_request: Request, view: View) -> Response:
    """The panels, which the browser reloads every two seconds."""
    shown: dict[str, Any] = dict.fromkeys(("decisions", "latencies", "programmes", "endpoints", "newest"))
    caller, now_ms = view.caller, view.services.clock.now_ms()
    async with connected(view.services.pool) as connection:
        if view.may("list_transactions"):
            shown["decisions"] = await figures.decisions(connection, caller, now_ms)
            shown["newest"] = await figures.transactions(connection, caller)
        if view.may("get_simulated_spend"):
            shown["latencies"] = await figures.latencies(connection, caller, now_ms)
        if view.may("list_programs") and view.may("list_stip_activity"):
            shown["programmes"] = await figures.programmes(connection, caller)
        if view.may("list_webhook_deliveries"):
            shown["endpoints"] = await figures.endpoints(connection, caller)
    return view.html("panels.html", **shown)


async def chart(_request: Request, view: View) -> Response:
    """The chart's numbers, as JSON."""
    async with connected(view.services.pool) as connection:
        found = await figures.decisions(connection, view.caller, view.services.clock.now_ms())
    return Response(json_bytes(found), media_type="application/json", headers=NO_STORE)


PAGES: Final = (
    PageRoute("", dashboard, label="Home"),
    PageRoute("/panels", panels),
    PageRoute("/figures", chart, operation="list_transactions"),
)
