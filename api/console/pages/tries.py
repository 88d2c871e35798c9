"""Purchases to try on a card: a dry run, and a simulated spend in test mode."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import PageProblem, Problem
from api.console.purchases import CHOICES, DEFAULTS, dry_run_of, fields_of, spend_of
from api.console.view import PageRoute, View
from api.database.pool import Connection
from api.http.answers import json_response
from api.operations.idempotency import claim_of, hand_over

DECISION_POLLS_MAX: Final = 100
DECISION_POLL_SECONDS: Final = 0.05


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
    try:
        accepted = await _once(view, spend_of(form, card), form.get("key", ""))
    except PageProblem as refused:
        return _spend_form(view, card, form, refused.problem)
    decided = await _decision(view, accepted["simulation_id"])
    if decided is None:
        return view.redirect(f"/cards/{card['id']}", notice="The spend is sent; it has no answer yet.")
    if decided["transaction_id"] is None:
        failure = decided["failure"]
        return view.redirect(
            f"/cards/{card['id']}",
            notice=f"The spend failed: {failure['detail'] if failure else 'no answer'}",
        )
    return view.redirect(f"/transactions/{decided['transaction_id']}", notice=_notice(decided))


async def _once(view: View, body: dict[str, Any], key: str) -> dict[str, Any]:
    """The acceptance of the spend. The operation takes no idempotency key, because each call is a message of
    its own; the console claims the key of the form, so that a form sent twice is one message. Raises
    ``PageProblem``."""

    async def prepare(_connection: Connection) -> None:
        return None

    async def send(_prepared: None) -> Response:
        answer = await view.api.post("/v1/simulated-spends", body)
        if isinstance(answer, Problem):
            raise PageProblem(answer)
        return json_response(202, answer)

    claim = claim_of(view.services, view.caller, view.request, key, body)
    accepted = await hand_over(view.services, claim, prepare, send)
    found: dict[str, Any] = orjson.loads(accepted.body)
    return found


async def _decision(view: View, simulation_id: str) -> dict[str, Any] | None:
    """The simulation once it has ended; ``None`` if it does not end in time."""
    for _ in range(DECISION_POLLS_MAX):
        found = await view.api.require(f"/v1/simulated-spends/{simulation_id}")
        if found["state"] in {"decided", "failed"}:
            return found
        await asyncio.sleep(DECISION_POLL_SECONDS)
    return None


def _notice(decided: Mapping[str, Any]) -> str:
    if decided["decision"] == "approved":
        return f"Approved: {decided['approved_amount']['amount']} {decided['approved_amount']['currency']}."
    reason = (decided["decline_reason"] or "").replace("_", " ")
    return f"Declined: {reason or decided['response_code']}."


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
