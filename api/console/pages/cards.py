"""A card's newest transactions, each with the trace of its decision."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console import figures
from api.console.view import PageRoute, View
from api.database.pool import connected
from engine.ids import is_id


async def card(request: Request, view: View) -> Response:
    """The card whose id is in the query."""
    card_id = request.query_params.get("id", "").strip().lower()
    found: Any = None
    transactions: list[dict[str, Any]] = []
    if is_id(card_id) and view.may("get_card") and view.may("list_transactions"):
        async with connected(view.services.pool) as connection:
            found = await figures.card(connection, view.caller, card_id)
            if found is not None:
                transactions = await figures.transactions(connection, view.caller, card_id)
    status = 200 if found is not None else 404
    return view.html("card.html", status=status, card=found, transactions=transactions)


PAGES: Final = (PageRoute("/cards", card),)
