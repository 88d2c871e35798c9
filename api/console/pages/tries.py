"""Purchases to try on a card: a dry run, and a simulated spend in test mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.purchases import CHOICES, DEFAULTS, dry_run_of, fields_of, spend_of
from api.console.simulated import decision, outcome, send_once
from api.console.view import PageRoute, View


async def evaluate(request: Request, view: View) -> Response:
    """A dry run of the purchase in the query, or of that of a transaction, beside its recorded decision."""
    card = await view.api.require(_card_path(request))
    given: dict[str, str] = dict(request.query_params)
    recorded = None
    if given.get("transaction_id"):
        recorded = await view.api.require(f"/v1/transactions/{given['transaction_id']}")
        if recorded["card_id"] != card["id"]:
            recorded = None
        elif "amount" not in given:
            given |= fields_of(recorded)
    answer = None
    if "amount" in given:
        body = dry_run_of(given, card["currency"])
        answer = await view.api.post(f"{_card_path(request)}/evaluate", body)
    problem = answer if isinstance(answer, Problem) else None
    return view.html(
        "cards/evaluate.html",
        card=card,
        given=given if "amount" in given else DEFAULTS | given,
        recorded=recorded,
        outcome=None if problem is not None else answer,
        problem=problem,
        choices=CHOICES,
    )


async def spend_form(request: Request, view: View) -> Response:
    """The form of a simulated spend."""
    card = await view.api.require(_card_path(request))
    return _spend_form(view, card, DEFAULTS | dict(request.query_params))


async def spend(request: Request, view: View) -> Response:
    """Send the spend over the wire, wait for its decision, and go to its transaction."""
    card, form = await view.api.require(_card_path(request)), view.form()
    accepted = await send_once(view, spend_of(form, card))
    if isinstance(accepted, Problem):
        return _spend_form(view, card, form, accepted)
    ended = await decision(view, accepted["simulation_id"])
    transaction_id = (ended or {}).get("transaction_id")
    there = f"/transactions/{transaction_id}" if transaction_id else f"/cards/{card['id']}"
    return view.redirect(there, notice=outcome("Approved", ended))


def _spend_form(
    view: View, card: dict[str, Any], given: Mapping[str, str], problem: Problem | None = None
) -> Response:
    return view.html(
        "cards/spend.html",
        card=card,
        given=given,
        problem=problem,
        choices=CHOICES,
    )


def _card_path(request: Request) -> str:
    return f"/v1/cards/{request.path_params['id']}"


PAGES: Final = (
    PageRoute("/cards/{id}/evaluate", evaluate, operation="evaluate_card"),
    PageRoute("/cards/{id}/spend", spend_form, operation="create_simulated_spend"),
    PageRoute("/cards/{id}/spend", spend, method="POST", operation="create_simulated_spend"),
)
