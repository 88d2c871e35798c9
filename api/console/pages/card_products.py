"""Card products: the list, a new one, and one with its default controls."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor import controls
from api.console.editor.names import edited, nested, rows, text
from api.console.editor.pairs import at_rows, given_rows, pairs_of
from api.console.scopes import scopes_of
from api.console.view import PageRoute, View

CHOICES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "network": (("visa", "Visa"), ("mastercard", "Mastercard")),
    "form_factor": (("virtual", "virtual"), ("physical", "physical")),
    "currency": (("EUR", "EUR"), ("GBP", "GBP"), ("USD", "USD")),
    "kyc_flow": (("", "none"), ("basic", "basic"), ("document", "document"), ("full", "full")),
}
"""Values with their words."""
_NAMES: Final = (
    "programme_id",
    "name",
    "network",
    "currency",
    "form_factor",
    "iin",
    "kyc_flow",
    "external_ref",
)


async def card_products(request: Request, view: View) -> Response:
    """The list of card products, of one programme or of all."""
    programme_id = request.query_params.get("programme_id", "")
    found, pager = await view.paged("/v1/card-products", programme_id=programme_id)
    return view.html(
        "card_products/list.html",
        products=found["data"],
        pager=pager,
        programme_id=programme_id,
        scopes=await scopes_of(view),
    )


async def card_product(request: Request, view: View) -> Response:
    """One card product."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the card product in the path, with the ``problem`` of an act on it."""
    found = await view.api.require(f"/v1/card-products/{request.path_params['id']}")
    return view.html(
        "card_products/product.html",
        product=found,
        scopes=await scopes_of(view),
        in_words=controls.in_words,
        problem=problem,
    )


async def new_product(request: Request, view: View) -> Response:
    """The form of a new card product."""
    return await _form_page(view, {"programme_id": request.query_params.get("programme_id", "")})


async def create(_request: Request, view: View) -> Response:
    """Create the card product, or change the form's rows."""
    form = nested(view.form().pairs)
    if edited(form, text(form, "do")):
        return await _form_page(view, form)
    given = controls.given_rows(form, "control_defaults")
    body: dict[str, Any] = {name: text(form, name) for name in _NAMES if text(form, name)}
    body["control_defaults"] = [controls.to_control(row) for row in given]
    body["metadata"] = pairs_of(form)
    answer = await view.api.post("/v1/card-products", body)
    if isinstance(answer, Problem):
        shown_rows = {"control_defaults": given, "metadata": given_rows(form)}
        return await _form_page(view, form | shown_rows, at_rows(answer, form))
    return view.redirect(f"/card-products/{answer['id']}", notice="The card product has been created.")


async def retire(request: Request, view: View) -> Response:
    """Retire the card product."""
    product_id = request.path_params["id"]
    answer = await view.api.post(f"/v1/card-products/{product_id}/retire")
    if isinstance(answer, Problem):
        return await shown(request, view, answer)
    notice = "The card product is retired: no more cards are issued under it."
    return view.redirect(f"/card-products/{product_id}", notice=notice)


async def _form_page(view: View, form: dict[str, Any], problem: Problem | None = None) -> Response:
    listed = {name: rows(form.get(name)) for name in ("control_defaults", "metadata")}
    fields = dict.fromkeys(_NAMES, "") | form | listed
    return view.form_page(
        "card_products/form.html",
        fields,
        problem,
        choices=CHOICES,
        scopes=await scopes_of(view),
        controls=controls,
    )


PAGES: Final = (
    PageRoute(
        "/card-products",
        card_products,
        operation="list_card_products",
        label="Card products",
        group="Programmes",
    ),
    PageRoute("/card-products/new", new_product, operation="create_card_product"),
    PageRoute("/card-products/new", create, "POST", operation="create_card_product"),
    PageRoute("/card-products/{id}", card_product, operation="get_card_product"),
    PageRoute("/card-products/{id}/retire", retire, "POST", operation="retire_card_product"),
)
