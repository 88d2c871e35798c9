"""Cards: their list, and the page of one card with its holder, its money, its limits and its actions."""

from __future__ import annotations

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.cards.views import State
from api.console.api_calls import Problem
from api.console.lookups import one, programmes_of, rows_of
from api.console.purchases import CHOICES
from api.console.view import PageRoute, View
from engine.cards.card import TRANSITIONS
from engine.limits import CONSOLE_TRANSACTIONS_MAX, PAGE_LIMIT_MAX

FILTERS: Final = ("last4", "state", "programme_id", "cardholder_id", "external_ref")
HEADROOM: Final = {"mcc": "5411", "channel": "pos", "merchant_country": ""}
"""The merchant for whom a card's page shows the headroom, unless the query names another one."""


async def cards(_request: Request, view: View) -> Response:
    """The list with its filters."""
    given = view.request.query_params
    query = {name: given.get(name, "").strip() or None for name in FILTERS}
    found = await view.listed("/v1/cards", **query)
    programmes = await programmes_of(view)
    return view.html(
        "cards/list.html",
        status=found.status,
        rows=found.rows,
        pager=found.pager,
        problem=found.problem,
        query=query,
        filtered=sum(value is not None for value in query.values()),
        states=get_args(State),
        programmes=programmes,
        names={each["id"]: each["name"] for each in programmes},
    )


async def card(request: Request, view: View) -> Response:
    """One card."""
    return await card_page(view, request.path_params["id"])


async def card_page(view: View, card_id: str, *, problem: Problem | None = None) -> Response:
    """The page of a card; with ``problem`` after a refused action."""
    path = f"/v1/cards/{card_id}"
    found = await view.api.require(path)
    merchant = {name: view.request.query_params.get(name, value) for name, value in HEADROOM.items()}
    of_card = {"scope_type": "card", "scope_id": found["id"], "limit": PAGE_LIMIT_MAX}
    rules = transactions = None
    if view.may("list_authorization_rules"):
        rules = await view.api.get("/v1/authorization-rules", of_card)
    if view.may("list_transactions"):
        of_card = {"card_id": found["id"], "limit": CONSOLE_TRANSACTIONS_MAX}
        transactions = await view.api.get("/v1/transactions", of_card)
    return view.html(
        "cards/page.html",
        problem=problem,
        card=found,
        moves=TRANSITIONS[found["state"]],
        programme=await one(view, "get_program", f"/v1/programs/{found['programme_id']}"),
        product=await one(view, "get_card_product", f"/v1/card-products/{found['card_product_id']}"),
        balance=await one(view, "get_card_balance", f"{path}/balance"),
        headroom=await view.api.get(f"{path}/headroom", merchant),
        merchant=merchant,
        channels=CHOICES["channel"],
        rules=None if rules is None else rows_of(rules),
        transactions=None if transactions is None else rows_of(transactions),
    )


PAGES: Final = (
    PageRoute("/cards", cards, operation="list_cards", label="Cards", group="Cards"),
    PageRoute("/cards/{id}", card, operation="get_card"),
)
