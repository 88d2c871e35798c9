"""Transfers: the list, a new one, and one with its ledger entries and its reversal."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor.names import group, nested, text
from api.console.scopes import scopes_of
from api.console.view import PageRoute, View
from api.console.windows import day_window
from engine.ids import is_id

KINDS: Final = (
    ("load", "load: money onto the account"),
    ("unload", "unload: money back"),
    ("fee", "fee"),
    ("adjustment", "adjustment"),
)
DIRECTIONS: Final = (("credit", "credit: raises the balance"), ("debit", "debit: lowers the balance"))
CURRENCIES: Final = ("EUR", "GBP", "USD")
_FILTERS: Final = ("account_id", "programme_id", "kind", "external_ref")
_NAMES: Final = ("account_id", "kind", "direction", "external_ref", "description", "allow_negative")


async def transfers(request: Request, view: View) -> Response:
    """The list of transfers."""
    asked = request.query_params
    filters = {name: asked.get(name, "").strip() for name in (*_FILTERS, "first_day", "last_day")}
    window = day_window(view.zone, filters["first_day"], filters["last_day"])
    given = {name: filters[name] for name in _FILTERS} | window
    found = await view.listed("/v1/transfers", **given)
    return view.html(
        "transfers/list.html",
        transfers=found.rows,
        problem=found.problem,
        pager=found.pager,
        filters=filters,
        kinds=KINDS,
        scopes=await scopes_of(view),
    )


async def transfer(request: Request, view: View) -> Response:
    """One transfer."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the transfer in the path, with the ``problem`` of its reversal."""
    found = await view.api.require(f"/v1/transfers/{request.path_params['id']}")
    ids = [each for each in (found["id"], found["reversal_id"]) if each]
    entries = [await view.api.require("/v1/ledger-entries", transfer_id=each) for each in ids]
    return view.html(
        "transfers/transfer.html",
        transfer=found,
        entries=[entry for page in entries for entry in page["data"]],
        scopes=await scopes_of(view),
        problem=problem,
    )


async def reverse(request: Request, view: View) -> Response:
    """Reverse the transfer in full."""
    path = f"/v1/transfers/{request.path_params['id']}"
    allow = view.form().get("allow_negative") == "true"
    answer = await view.api.post(f"{path}/reverse", {"allow_negative": allow})
    if isinstance(answer, Problem):
        return await shown(request, view, answer)
    return view.redirect(f"/transfers/{answer['id']}", notice="The transfer is reversed.")


async def new_transfer(request: Request, view: View) -> Response:
    """The form of a new transfer."""
    account_id = request.query_params.get("account_id", "")
    form: dict[str, Any] = {"account_id": account_id, "kind": "load", "direction": "credit"}
    account = await view.api.get(f"/v1/accounts/{account_id}") if is_id(account_id.lower()) else None
    if account is not None and not isinstance(account, Problem):
        form["amount"] = {"amount": "", "currency": account["currency"]}
    return _form_page(view, form)


async def create(_request: Request, view: View) -> Response:
    """Post the transfer."""
    form = nested(view.form().pairs)
    amount = group(form, "amount")
    body: dict[str, Any] = {name: text(form, name) for name in _NAMES if text(form, name)}
    body["amount"] = {name: text(amount, name) for name in ("amount", "currency")}
    body["allow_negative"] = text(form, "allow_negative") == "true"
    answer = await view.api.post("/v1/transfers", body)
    if isinstance(answer, Problem):
        return _form_page(view, form, answer)
    return view.redirect(f"/transfers/{answer['id']}", notice="The transfer is posted.")


def _form_page(view: View, form: dict[str, Any], problem: Problem | None = None) -> Response:
    fields = dict.fromkeys(_NAMES, "") | form
    fields["amount"] = {"amount": "", "currency": ""} | group(form, "amount")
    return view.form_page(
        "transfers/form.html",
        fields,
        problem,
        kinds=KINDS,
        directions=DIRECTIONS,
        currencies=CURRENCIES,
    )


PAGES: Final = (
    PageRoute("/transfers", transfers, operation="list_transfers", label="Transfers", group="Money"),
    PageRoute("/transfers/new", new_transfer, operation="create_transfer"),
    PageRoute("/transfers/new", create, "POST", operation="create_transfer"),
    PageRoute("/transfers/{id}", transfer, operation="get_transfer"),
    PageRoute("/transfers/{id}", reverse, "POST", operation="reverse_transfer"),
)
