"""The list of transactions: filters, a live tail, and a CSV file of the newest ones."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.console.api_calls import PageProblem, Problem
from api.console.instants import entered_instant, field_value
from api.console.lookups import cards_of, programmes_of
from api.console.templating import NO_STORE
from api.console.view import PageRoute, View
from api.transactions.views import Kind, Status
from engine.decline import REASONS
from engine.limits import CONSOLE_CSV_ROWS_MAX, PAGE_LIMIT_MAX

FILTERS: Final = (
    "decision",
    "status",
    "kind",
    "decline_reason",
    "programme_id",
    "card_id",
    "cardholder_id",
    "merchant",
    "amount",
    "mcc",
    "rrn",
    "network_txn_id",
)
"""Filters that the API takes as they are entered."""
CHOICES: Final = {
    "decision": ("approved", "declined"),
    "status": get_args(Status),
    "kind": get_args(Kind),
    "decline_reason": REASONS,
}
COLUMNS: Final = (
    *("id", "created_at", "kind", "status", "decision", "decline_reason", "decline_detail", "decided_by"),
    *("currency", "requested_amount", "approved_amount", "held_amount", "cleared_amount", "reversed_amount"),
    *("merchant_amount", "merchant_currency", "mcc", "merchant_id", "merchant_name", "merchant_country"),
    *("channel", "card_id", "cardholder_id", "programme_id", "network", "stan", "rrn", "network_txn_id"),
)
"""Columns of the CSV file."""
RATE_LIMIT_PAUSE_SECONDS: Final = 1.0
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def asked(view: View) -> dict[str, Any]:
    """The filters of the page as query parameters of the API."""
    given = view.request.query_params
    query: dict[str, Any] = {name: given.get(name, "").strip() or None for name in FILTERS}
    for name in ("from", "to"):
        query[name] = entered_instant(given.get(name, "").strip(), view.zone)
    return query


async def transactions(_request: Request, view: View) -> Response:
    """The page with its filters."""
    query = asked(view)
    found = await view.listed("/v1/transactions", **query)
    return view.html(
        "transactions/list.html",
        status=found.status,
        rows=found.rows,
        cards=await cards_of(view, (each["card_id"] for each in found.rows)),
        pager=found.pager,
        problem=found.problem,
        query=query,
        times={name: field_value(query[name], view.zone) for name in ("from", "to")},
        filtered=sum(value is not None for value in query.values()),
        choices=CHOICES,
        programmes=await programmes_of(view),
        # Only the newest page of an open window has new rows.
        live=found.pager.newer is None and query["to"] is None and found.problem is None,
        csv_rows_max=CONSOLE_CSV_ROWS_MAX,
        same_query=view.request.url.query,
    )


async def rows(_request: Request, view: View) -> Response:
    """The rows of the newest page, which the live tail reloads."""
    found, _pager = await view.paged("/v1/transactions", **asked(view))
    cards = await cards_of(view, (each["card_id"] for each in found["data"]))
    return view.html("transactions/rows.html", rows=found["data"], cards=cards)


async def csv_file(_request: Request, view: View) -> Response:
    """The newest transactions that the filters admit, as CSV."""
    query = asked(view)
    first = await view.api.require("/v1/transactions", {**query, "limit": PAGE_LIMIT_MAX})
    headers = NO_STORE | {"Content-Disposition": 'attachment; filename="transactions.csv"'}
    return StreamingResponse(_lines(view, query, first), 200, headers, "text/csv; charset=utf-8")


async def _lines(view: View, query: dict[str, Any], found: dict[str, Any]) -> AsyncIterator[str]:
    yield _line(COLUMNS)
    left = CONSOLE_CSV_ROWS_MAX
    while True:
        for each in found["data"][:left]:
            yield _line([_cell(value) for value in _values(each)])
        left -= len(found["data"])
        if left <= 0 or not found["has_more"]:
            return
        found = await _next(view, {**query, "limit": PAGE_LIMIT_MAX, "starting_after": found["next_cursor"]})


async def _next(view: View, query: dict[str, Any]) -> dict[str, Any]:
    """The next page. Waits while the tenant's rate limit is used up."""
    while True:
        found = await view.api.get("/v1/transactions", query)
        if not isinstance(found, Problem):
            return found
        if found.status != 429:
            # The answer has begun: cutting the connection is the only way to report the failure.
            raise PageProblem(found)
        await asyncio.sleep(RATE_LIMIT_PAUSE_SECONDS)


def _values(row: dict[str, Any]) -> list[Any]:
    merchant, network = row["merchant"], row["network"]
    flat = {
        **row,
        "merchant_amount": row["merchant_amount"]["amount"],
        "merchant_currency": row["merchant_amount"]["currency"],
        **{f"merchant_{name}": merchant[name] for name in ("id", "name", "country")},
        "network": network["name"],
        **{name: network[name] for name in ("stan", "rrn", "network_txn_id")},
    }
    return [flat[name] for name in COLUMNS]


def _cell(value: Any) -> str:
    """A value as text. Spreadsheets run texts that begin like a formula, so these get an apostrophe."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(values: Any) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(values)
    return out.getvalue()


PAGES: Final = (
    PageRoute(
        "/transactions", transactions, operation="list_transactions", label="Transactions", group="Cards"
    ),
    PageRoute("/transactions/rows", rows, operation="list_transactions"),
    PageRoute("/transactions/transactions.csv", csv_file, operation="list_transactions"),
)
