"""The first page: decisions, amounts, latency and stand-in over a time range, and the newest transactions."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.console import figures
from api.console.activity.ranges import DEFAULT_RANGE, RANGES, TimeRange
from api.console.activity.series import Activity, activity
from api.console.lookups import cards_of, rows_of
from api.console.view import PageRoute, View
from api.database.pool import connected
from engine.instant import to_text
from engine.limits import CONSOLE_COUNTED_ROWS_MAX, CONSOLE_TRANSACTIONS_MAX


async def home(request: Request, view: View) -> Response:
    """The page; the browser loads the figures and the panels separately."""
    return view.html("home/page.html", ranges=RANGES.values(), range=_range(request))


async def summary(request: Request, view: View) -> Response:
    """The figures of a time range: as numbers, as a table, and as data for the charts."""
    range_ = _range(request)
    now_ms = view.services.clock.now_ms()
    found = await activity(view.services.pool, view.caller, range_, now_ms, view.zone)
    decided = found.totals["approved"] + found.totals["declined"]
    return view.html(
        "home/summary.html",
        range=range_,
        activity=found,
        rows_max=CONSOLE_COUNTED_ROWS_MAX,
        data=orjson.dumps(
            {
                "zone": view.zone,
                "counting": found.counting,
                "at": found.at,
                "approved": found.approved,
                "declined": found.declined,
                "stand_in_approved": found.stand_in_approved,
                "stand_in_declined": found.stand_in_declined,
                "p50_ms": found.p50_ms,
                "p99_ms": found.p99_ms,
                "amounts": found.amounts,
            }
        ).decode(),
        declined_share=found.totals["declined"] / decided if decided else None,
        rows=[row for row in _table(found) if any(row[1:])],
    )


async def panels(_request: Request, view: View) -> Response:
    """Stand-in, webhooks and the newest transactions, which the browser reloads."""
    shown: dict[str, Any] = dict.fromkeys(("programmes", "endpoints", "newest"))
    async with connected(view.services.pool) as connection:
        if view.may("list_programs") and view.may("list_stip_activity"):
            shown["programmes"] = await figures.programmes(connection, view.caller)
        if view.may("list_webhook_deliveries"):
            shown["endpoints"] = await figures.endpoints(connection, view.caller)
    if view.may("list_transactions"):
        shown["newest"] = rows_of(await view.api.get("/v1/transactions", {"limit": CONSOLE_TRANSACTIONS_MAX}))
    cards = await cards_of(view, (each["card_id"] for each in shown["newest"] or ()))
    return view.html("home/panels.html", cards=cards, **shown)


def _range(request: Request) -> TimeRange:
    return RANGES.get(request.query_params.get("range", ""), DEFAULT_RANGE)


def _table(found: Activity) -> list[tuple[Any, ...]]:
    """One row for each slot."""
    at = [to_text(begin * 1000) for begin in found.at]
    columns = (at, found.approved, found.declined, found.stand_in_approved, found.stand_in_declined)
    return list(zip(*columns, found.p50_ms, found.p99_ms, strict=True))


PAGES: Final = (
    PageRoute("", home, label="Home"),
    PageRoute("/summary", summary, operation="list_transactions"),
    PageRoute("/panels", panels),
)
