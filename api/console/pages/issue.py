"""Issuing a card: product, cardholder, account and controls on one page.

The page calls at most two operations: the one that creates the cardholder, then the one that issues the card.
Each has its own key, made from the form's. If the second is refused, the cardholder stays: the page says so,
and the form then names the cardholder. If an outcome is unknown, the form keeps its key, so sending it again
creates nothing twice.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor import controls
from api.console.editor.names import edited, group, nested, rows, text
from api.console.editor.pairs import at_rows, given_rows, pairs_of
from api.console.editor.people import person_fields, person_of
from api.console.lookups import one, programme_choices, rows_of
from api.console.view import PageRoute, View
from api.http.problems import FieldError
from engine.ids import is_id
from engine.limits import PAGE_LIMIT_MAX

PATH: Final = "/cards/new"
ACCOUNTS: Final = (
    ("new", "a new account of its own"),
    ("shared", "an account that exists: the cards share its money"),
    ("none", "no account"),
)
ACTIVATIONS: Final = (
    ("", "as usual for its form"),
    ("true", "active at once"),
    ("false", "not activated yet"),
)
HOLDERS: Final = (("existing", "a cardholder who exists"), ("new", "a new cardholder"))
EMPTY: Final[dict[str, Any]] = {
    "programme_id": "",
    "card_product_id": "",
    "holder_choice": "existing",
    "cardholder_id": "",
    "find": "",
    "account": "new",
    "funding_account_id": "",
    "own_controls": "",
    "activate": "",
    "external_ref": "",
}


class Issued(NamedTuple):
    """The outcome of the calls: the card, or the problem at which they stopped."""

    card: dict[str, Any] | None = None
    problem: Problem | None = None
    created: dict[str, Any] | None = None
    """The cardholder whom the form has created."""
    holders: list[dict[str, Any]] | None = None
    """The cardholders among whom the form has to choose."""


async def new(request: Request, view: View) -> Response:
    """The form of a new card; the query may name the product, the cardholder, or the account to share."""
    asked = {name: request.query_params.get(name, "") for name in ("programme_id", "cardholder_id")}
    form = asked | {"card_product_id": request.query_params.get("card_product_id", "")}
    if account_id := request.query_params.get("account_id"):
        form |= {"account": "shared", "funding_account_id": account_id}
    return await _form_page(view, form)


async def issue(_request: Request, view: View) -> Response:
    """Issue the card, or change the form."""
    form = nested(view.form().pairs)
    act = text(form, "do")
    if edited(form, act) or act == "renew":
        return await _form_page(view, form)
    done = await _issue(view, form)
    if done.card is not None:
        return view.redirect(f"/cards/{done.card['id']}", notice="The card is issued.")
    if done.created is not None:
        form |= {"holder_choice": "existing", "cardholder_id": done.created["id"], "find": ""}
    shown = form | {
        "controls": controls.given_rows(form, "controls"),
        "metadata": given_rows(form),
    }
    return await _form_page(view, shown, done)


async def _issue(view: View, form: dict[str, Any]) -> Issued:
    """Make the calls in their order; stop at the first problem."""
    created: dict[str, Any] | None = None
    if text(form, "holder_choice") == "new":
        answer = await _create_holder(view, form)
        if isinstance(answer, Problem):
            return Issued(problem=answer.below("/holder"))
        created, holder_id = answer, answer["id"]
    elif text(form, "find"):
        found = await _found(view, text(form, "programme_id"), text(form, "find"))
        if len(found) != 1:
            return Issued(problem=_not_found(len(found)), holders=found or None)
        holder_id = found[0]["id"]
    else:
        holder_id = text(form, "cardholder_id")
    card = await view.api.post("/v1/cards", _card_of(form, holder_id), key=view.form().get("key"))
    if isinstance(card, Problem):
        return Issued(problem=at_rows(card, form), created=created)
    return Issued(card)


async def _create_holder(view: View, form: dict[str, Any]) -> dict[str, Any] | Problem:
    given = {name: value for name, value in person_of(group(form, "holder")).items() if value is not None}
    body = {"programme_id": text(form, "programme_id"), **given}
    return await view.api.post("/v1/cardholders", body, key=f"{view.form().get('key', '')}.holder")


async def _found(view: View, programme_id: str, wanted: str) -> list[dict[str, Any]]:
    """The cardholders of the programme with an id, an e-mail address or a reference."""
    if is_id(wanted.lower()):
        holder = await one(view, "get_cardholder", f"/v1/cardholders/{wanted}")
        return [] if holder is None else [holder]
    name = "email" if "@" in wanted else "external_ref"
    query = {"programme_id": programme_id, name: wanted, "limit": PAGE_LIMIT_MAX}
    return rows_of(await view.api.get("/v1/cardholders", query))


def _not_found(count: int) -> Problem:
    sentence = (
        "Several cardholders have it. Choose one of them."
        if count
        else "No cardholder of the programme has this id, e-mail address or reference."
    )
    wrong = FieldError("/cardholder_id" if count else "/find", "not_found", sentence)
    return Problem(400, "validation-failed", "The form is not valid", sentence, (wrong,))


def _card_of(form: dict[str, Any], holder_id: str) -> dict[str, Any]:
    """The API's body of the card."""
    body: dict[str, Any] = {
        "card_product_id": text(form, "card_product_id"),
        "cardholder_id": holder_id,
        "metadata": pairs_of(form),
    }
    if text(form, "account") == "shared":
        body["funding_account_id"] = text(form, "funding_account_id")
    elif text(form, "account") == "none":
        body["funding_account_id"] = None
    if text(form, "own_controls"):
        body["controls"] = [controls.to_control(row) for row in controls.given_rows(form, "controls")]
    if text(form, "activate"):
        body["activate"] = text(form, "activate") == "true"
    if text(form, "external_ref"):
        body["external_ref"] = text(form, "external_ref")
    return body


async def _form_page(view: View, form: dict[str, Any], done: Issued | None = None) -> Response:
    done = done or Issued()
    fields = EMPTY | form
    fields |= {
        "holder": person_fields(group(form, "holder")),
        "controls": rows(form.get("controls")),
        "metadata": rows(form.get("metadata")),
    }
    fields["programme_id"] = await _programme_id(view, fields)
    programme: dict[str, Any] | None = None
    products: list[dict[str, Any]] = []
    holders: list[dict[str, Any]] = []
    if fields["programme_id"]:
        programme = await one(view, "get_program", f"/v1/programs/{fields['programme_id']}")
        products = await _products(view, fields["programme_id"])
        holders = done.holders or await _holders(view, fields, done.created)
    fields["card_product_id"] = _chosen(products, fields["card_product_id"])
    return view.form_page(
        "cards/issue.html",
        fields,
        done.problem,
        created=done.created,
        programme=programme,
        programmes=await programme_choices(view),
        products=products,
        product=next((each for each in products if each["id"] == fields["card_product_id"]), None),
        holders=[(each["id"], _label(each)) for each in holders],
        more_holders=len(holders) >= PAGE_LIMIT_MAX,
        accounts=ACCOUNTS,
        activations=ACTIVATIONS,
        holder_choices=HOLDERS if view.may("create_cardholder") else HOLDERS[:1],
        controls=controls,
    )


async def _programme_id(view: View, fields: dict[str, Any]) -> str:
    """The programme of the form: its own choice, or that of the product, the cardholder or the account which
    the page's address names."""
    if fields["programme_id"]:
        return str(fields["programme_id"])
    for operation, path, name in (
        ("get_card_product", "/v1/card-products", "card_product_id"),
        ("get_cardholder", "/v1/cardholders", "cardholder_id"),
        ("get_account", "/v1/accounts", "funding_account_id"),
    ):
        if fields[name] and is_id(str(fields[name]).lower()):
            found = await one(view, operation, f"{path}/{fields[name]}")
            return str(found["programme_id"]) if found else ""
    return ""


async def _products(view: View, programme_id: str) -> list[dict[str, Any]]:
    """The products of the programme under which cards can be issued."""
    if not view.may("list_card_products"):
        return []
    found = await view.api.get("/v1/card-products", programme_id=programme_id, limit=PAGE_LIMIT_MAX)
    return [each for each in rows_of(found) if each["status"] == "active"]


def _chosen(products: list[dict[str, Any]], id_: str) -> str:
    """The chosen product if it is one of the programme's; otherwise the only one, if there is one only."""
    ids = [each["id"] for each in products]
    return id_ if id_ in ids else ids[0] if len(ids) == 1 else ""


async def _holders(
    view: View, fields: dict[str, Any], created: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The newest active cardholders of the programme, and the one whom the form names."""
    if not view.may("list_cardholders"):
        return [created] if created else []
    query = {"programme_id": fields["programme_id"], "status": "active", "limit": PAGE_LIMIT_MAX}
    found = rows_of(await view.api.get("/v1/cardholders", query))
    named = fields["cardholder_id"]
    if named and is_id(str(named).lower()) and all(each["id"] != named for each in found):
        other = created or await one(view, "get_cardholder", f"/v1/cardholders/{named}")
        found = [other, *found] if other else found
    return found


def _label(holder: dict[str, Any]) -> str:
    name = " ".join(each for each in (holder["given_name"], holder["family_name"]) if each) or "erased"
    return f"{name}, {holder['email']}" if holder["email"] else name


PAGES: Final = (
    PageRoute(PATH, new, operation="create_card"),
    PageRoute(PATH, issue, "POST", operation="create_card"),
)
