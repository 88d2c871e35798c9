"""Search: last four digits, an id, a retrieval reference number, an amount, a merchant, a cardholder.

One hit is opened at once. The kinds to look for follow from the form of the text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import PageRoute, View
from engine.ids import is_id
from engine.limits import CONSOLE_SEARCH_CHARS_MAX, CONSOLE_SEARCH_PAGES_MAX

ROWS: Final = 10
_LAST4: Final = re.compile(r"[0-9]{4}")
_RRN: Final = re.compile(r"[0-9A-Za-z]{12}")
_AMOUNT: Final = re.compile(r"([0-9]{1,9})(?:[.,]([0-9]{1,2}))?(?: ?[A-Z]{3})?")


class Kind(NamedTuple):
    """A kind of object that is found by its id."""

    operation: str
    path: str
    """Of the API, before the id."""
    page: str
    """Of the console, before the id."""


KINDS: Final = (
    Kind("get_transaction", "/v1/transactions/", "/transactions/"),
    Kind("get_card", "/v1/cards/", "/cards/"),
    Kind("get_cardholder", "/v1/cardholders/", "/cardholders/"),
    Kind("get_account", "/v1/accounts/", "/accounts/"),
    Kind("get_program", "/v1/programs/", "/programmes/"),
    Kind("get_card_product", "/v1/card-products/", "/card-products/"),
    Kind("get_authorization_rule", "/v1/authorization-rules/", "/rules/"),
    Kind("get_backtest", "/v1/backtests/", "/backtests/"),
    Kind("get_transfer", "/v1/transfers/", "/transfers/"),
    Kind("get_export", "/v1/exports/", "/exports/"),
    Kind("get_event", "/v1/events/", "/events/"),
    Kind("get_webhook_endpoint", "/v1/webhook-endpoints/", "/webhooks/"),
    Kind("get_kyc_check", "/v1/kyc/checks/", "/kyc/"),
    Kind("get_client", "/v1/clients/", "/clients/"),
    Kind("get_user", "/v1/users/", "/users/"),
)
"""In the order of how often people look for them."""


class Lookup(NamedTuple):
    """A list of the API that is asked for the text."""

    kind: str
    """``cards``, ``cardholders`` or ``transactions``."""
    query: dict[str, str]


PATHS: Final = {
    "cards": ("list_cards", "/v1/cards", "/cards/"),
    "cardholders": ("list_cardholders", "/v1/cardholders", "/cardholders/"),
    "transactions": ("list_transactions", "/v1/transactions", "/transactions/"),
}
"""Operation and path of each list, and the page of its rows."""


async def search(request: Request, view: View) -> Response:
    """The results, or the page of the only one."""
    text = request.query_params.get("q", "").strip()[:CONSOLE_SEARCH_CHARS_MAX]
    if is_id(text.lower()):
        return await _by_id(view, text.lower())
    found: dict[str, list[dict[str, Any]]] = {"cards": [], "cardholders": [], "transactions": []}
    lookups = list(lookups_of(text))
    answers = await asyncio.gather(*(_rows(view, lookup) for lookup in lookups))
    for lookup, rows in zip(lookups, answers, strict=True):
        known = {row["id"] for row in found[lookup.kind]}
        found[lookup.kind] += [row for row in rows if row["id"] not in known]
    hits = [(kind, row) for kind, rows in found.items() for row in rows]
    if len(hits) == 1:
        kind, row = hits[0]
        return view.redirect(f"{PATHS[kind][2]}{row['id']}")
    return view.html("search/search.html", text=text, found=found, count=len(hits))


async def _by_id(view: View, id_: str) -> Response:
    """The page of the object with that id: objects of all kinds have different ids."""
    kinds = [kind for kind in KINDS if view.may(kind.operation)]
    answers = await asyncio.gather(*(view.api.get(f"{kind.path}{id_}") for kind in kinds))
    for kind, answer in zip(kinds, answers, strict=True):
        if not isinstance(answer, Problem):
            return view.redirect(f"{kind.page}{id_}")
    empty: dict[str, list[Any]] = {name: [] for name in PATHS}
    return view.html("search/search.html", status=404, text=id_, found=empty, count=0)


def lookups_of(text: str) -> Iterator[Lookup]:
    """What a text may stand for, the most likely first."""
    if _LAST4.fullmatch(text):
        yield Lookup("cards", {"last4": text})
    if "@" in text:
        yield Lookup("cardholders", {"email": text})
    if _RRN.fullmatch(text):
        yield Lookup("transactions", {"rrn": text})
    amount = _AMOUNT.fullmatch(text)
    if amount is not None:
        yield Lookup("transactions", {"amount": f"{int(amount[1])}.{(amount[2] or '').ljust(2, '0')}"})
    if text and not text.isdecimal():
        yield Lookup("transactions", {"merchant": text})
        yield Lookup("cards", {"external_ref": text})
        yield Lookup("cardholders", {"external_ref": text})


async def _rows(view: View, lookup: Lookup) -> list[dict[str, Any]]:
    """The newest rows. A page of a filtered list can be empty although later pages are not, so a few are
    read."""
    operation, path, _ = PATHS[lookup.kind]
    rows: list[dict[str, Any]] = []
    if not view.may(operation):
        return rows
    cursor = None
    for _ in range(CONSOLE_SEARCH_PAGES_MAX):
        page = await view.api.get(path, lookup.query, limit=ROWS, starting_after=cursor)
        if isinstance(page, Problem):
            break  # the text has not the form that this filter demands
        rows += page["data"]
        cursor = page["next_cursor"]
        if len(rows) >= ROWS or not page["has_more"]:
            break
    return rows[:ROWS]


PAGES: Final = (PageRoute("/search", search),)
