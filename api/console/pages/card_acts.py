"""Actions on a card: its state, its replacement, its controls, a load in test mode, and a reveal session.

Each is an operation of the API, with its permission and its entry in the audit log. The key of the form is
its idempotency key, so a form that is sent twice acts once.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor import controls
from api.console.editor.names import edited, nested, rows, text
from api.console.pages.cards import card_page
from api.console.view import PageRoute, View
from engine.commands import Replacement

NOTICES: Final = {
    "active": "The card is active.",
    "suspended": "The card is frozen: it declines every authorization.",
    "terminated": "The card is terminated.",
    "lost": "The card is reported lost.",
    "stolen": "The card is reported stolen.",
}


# --- state and replacement ------------------------------------------------------------------------------


async def change_state(request: Request, view: View) -> Response:
    """Freeze, unfreeze, activate or end the card."""
    form, card_id = view.form(), request.path_params["id"]
    body = {"state": form.get("state", "")}
    reason = form.text("reason")
    answer = await view.api.patch(f"/v1/cards/{card_id}", body | ({"state_reason": reason} if reason else {}))
    if isinstance(answer, Problem):
        return await card_page(view, card_id, problem=answer)
    return view.redirect(f"/cards/{card_id}", notice=NOTICES[answer["state"]])


async def replacement(request: Request, view: View) -> Response:
    """The form of a replacement."""
    return await _replacement_form(view, request.path_params["id"])


async def replace(request: Request, view: View) -> Response:
    """Replace the card, and go to the new one."""
    form, card_id = view.form(), request.path_params["id"]
    body: dict[str, Any] = {"reason": form.get("reason", "")}
    if form.get("activate"):
        body["activate"] = form["activate"] == "true"
    answer = await view.api.post(f"/v1/cards/{card_id}/replace", body)
    if isinstance(answer, Problem):
        return await _replacement_form(view, card_id, answer)
    return view.redirect(f"/cards/{answer['id']}", notice="This card replaces the old one, which has ended.")


async def _replacement_form(view: View, card_id: str, problem: Problem | None = None) -> Response:
    return view.html(
        "cards/replace.html",
        card=await view.api.require(f"/v1/cards/{card_id}"),
        reasons=get_args(Replacement),
        problem=problem,
    )


# --- controls -------------------------------------------------------------------------------------------


async def controls_form(request: Request, view: View) -> Response:
    """The form of the card's controls."""
    card = await view.api.require(f"/v1/cards/{request.path_params['id']}")
    return _controls_form(view, card, {"controls": [controls.to_row(each) for each in card["controls"]]})


async def change_controls(request: Request, view: View) -> Response:
    """Replace all controls of the card by those of the form, or change the form's rows."""
    card = await view.api.require(f"/v1/cards/{request.path_params['id']}")
    form = nested(view.form().pairs)
    if edited(form, text(form, "do")):
        return _controls_form(view, card, form)
    given = controls.given_rows(form, "controls")
    body = {"controls": [controls.to_control(row) for row in given]}
    answer = await view.api.patch(f"/v1/cards/{card['id']}", body)
    if isinstance(answer, Problem):
        return _controls_form(view, card, {"controls": given}, answer)
    return view.redirect(f"/cards/{card['id']}", notice="The controls of the card are changed.")


def _controls_form(
    view: View, card: dict[str, Any], form: dict[str, Any], problem: Problem | None = None
) -> Response:
    fields = {"controls": rows(form.get("controls"))}
    return view.form_page("cards/controls.html", fields, problem, card=card, controls=controls)


# --- money and reveal -----------------------------------------------------------------------------------


async def load_form(request: Request, view: View) -> Response:
    """The form of a load."""
    return await _load_form(view, request.path_params["id"])


async def load(request: Request, view: View) -> Response:
    """Load money onto the card, in test mode."""
    form, card_id = view.form(), request.path_params["id"]
    money = {"amount": form.get("amount", "").strip(), "currency": form.get("currency", "")}
    answer = await view.api.post("/v1/simulated-loads", {"card_id": card_id, "amount": money})
    if isinstance(answer, Problem):
        return await _load_form(view, card_id, money["amount"], answer)
    loaded = f"{answer['amount']['amount']} {answer['amount']['currency']}"
    return view.redirect(f"/cards/{card_id}", notice=f"Loaded {loaded}; available {answer['available']}.")


async def _load_form(view: View, card_id: str, amount: str = "", problem: Problem | None = None) -> Response:
    return view.html(
        "cards/load.html",
        card=await view.api.require(f"/v1/cards/{card_id}"),
        amount=amount,
        problem=problem,
    )


async def reveal(request: Request, view: View) -> Response:
    """Open a reveal session, and show the link to its page. The console itself never has the number."""
    card_id = request.path_params["id"]
    answer = await view.api.post(f"/v1/cards/{card_id}/reveal-sessions", {})
    if isinstance(answer, Problem):
        return await card_page(view, card_id, problem=answer)
    card = await view.api.require(f"/v1/cards/{card_id}")
    return view.html("cards/reveal.html", card=card, reveal=answer, problem=None)


PAGES: Final = (
    PageRoute("/cards/{id}/state", change_state, method="POST", operation="update_card"),
    PageRoute("/cards/{id}/replace", replacement, operation="replace_card"),
    PageRoute("/cards/{id}/replace", replace, method="POST", operation="replace_card"),
    PageRoute("/cards/{id}/controls", controls_form, operation="update_card"),
    PageRoute("/cards/{id}/controls", change_controls, method="POST", operation="update_card"),
    PageRoute("/cards/{id}/load", load_form, operation="create_simulated_load"),
    PageRoute("/cards/{id}/load", load, method="POST", operation="create_simulated_load"),
    PageRoute("/cards/{id}/reveal", reveal, method="POST", operation="create_reveal_session"),
)
