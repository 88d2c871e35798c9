"""What the simulated network can do to a transaction in test mode: present, reverse, raise, lapse, refund."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.pages.transaction import transaction_page
from api.console.purchases import fields_of, spend_of
from api.console.simulated import decision, outcome, send_once, simulation_of
from api.console.view import PageRoute, View

MEMBERS: Final = {"clear": "amount", "reverse": "lower_by_amount", "increment": "raise_by_amount"}
"""The member that holds the amount of each follow-up."""
DONE: Final = {"clear": "Presented", "reverse": "Reversed", "increment": "Raised"}
LAPSED: Final = "The hold has lapsed."
NO_SIMULATION: Final = Problem(
    409,
    "simulation-not-found",
    "No simulation",
    "The simulated network has no simulation of this transaction.",
)


async def follow_up(request: Request, view: View) -> Response:
    """Present, reverse or raise the sale; then the transaction with the outcome."""
    act, found = request.url.path.rpartition("/")[2], await view.api.require(_path(request))
    original = await simulation_of(view, found)
    if original is None:
        return await transaction_page(view, found, problem=NO_SIMULATION)
    path = f"/v1/simulated-spends/{original['simulation_id']}/{act}"
    started = await view.api.post(path, _body(act, view.form(), found["currency"]))
    if isinstance(started, Problem):
        return await transaction_page(view, found, problem=started)
    ended = await decision(view, started["simulation_id"])
    return view.redirect(f"/transactions/{found['id']}", notice=outcome(DONE[act], ended))


async def expire(request: Request, view: View) -> Response:
    """Let the hold lapse now."""
    found = await view.api.require(_path(request))
    original = await simulation_of(view, found)
    answer: Any = NO_SIMULATION
    if original is not None:
        answer = await view.api.post(f"/v1/simulated-spends/{original['simulation_id']}/expire")
    if isinstance(answer, Problem):
        return await transaction_page(view, found, problem=answer)
    return view.redirect(f"/transactions/{found['id']}", notice=LAPSED)


async def refund(request: Request, view: View) -> Response:
    """Send a refund of the same merchant, and go to its transaction."""
    found = await view.api.require(_path(request))
    card = await view.api.require(f"/v1/cards/{found['card_id']}")
    accepted = await send_once(view, spend_of(_refund_of(found, view.form()), card))
    if isinstance(accepted, Problem):
        return await transaction_page(view, found, problem=accepted)
    ended = await decision(view, accepted["simulation_id"])
    there = (ended or {}).get("transaction_id") or found["id"]
    return view.redirect(f"/transactions/{there}", notice=outcome("Refunded", ended))


def _refund_of(transaction: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, str]:
    """The fields of the refund: those of the sale, in the currency of the card."""
    fields = fields_of(transaction) | {"kind": "refund", "amount": form.get("amount", "").strip()}
    fields["channel"] = fields["channel"] or "ecommerce"
    return {
        name: value for name, value in fields.items() if name not in ("merchant_amount", "merchant_currency")
    }


def _body(act: str, form: Mapping[str, str], currency: str) -> dict[str, Any]:
    """The API's body; without an amount, the whole rest is meant."""
    body: dict[str, Any] = {}
    amount = form.get("amount", "").strip()
    if amount or act == "increment":
        body[MEMBERS[act]] = {"amount": amount, "currency": currency}
    if act == "clear":
        body["final"] = form.get("more") != "true"
    return body


def _path(request: Request) -> str:
    return f"/v1/transactions/{request.path_params['id']}"


PAGES: Final = (
    PageRoute("/transactions/{id}/expire", expire, "POST", operation="expire_simulated_spend"),
    PageRoute("/transactions/{id}/refund", refund, "POST", operation="create_simulated_spend"),
    *(
        PageRoute(f"/transactions/{{id}}/{act}", follow_up, "POST", operation=f"{act}_simulated_spend")
        for act in MEMBERS
    ),
)
