"""The forms for a new cardholder and for its changes."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor.names import edited, nested, rows, text
from api.console.editor.pairs import at_rows, given_rows, pairs_of
from api.console.editor.people import person_fields, person_form, person_of
from api.console.lookups import programme_choices
from api.console.view import PageRoute, View

NEW: Final = "/cardholders/new"


async def new(request: Request, view: View) -> Response:
    """The form of a new cardholder; the query may name the programme."""
    return await _form_page(view, {"programme_id": request.query_params.get("programme_id", "")})


async def create(_request: Request, view: View) -> Response:
    """Create the cardholder, or change the form's rows."""
    form = nested(view.form().pairs)
    if edited(form, text(form, "do")):
        return await _form_page(view, form)
    given = {name: value for name, value in person_of(form).items() if value is not None}
    body = {"programme_id": text(form, "programme_id"), **given, "metadata": pairs_of(form)}
    answer = await view.api.post("/v1/cardholders", body)
    if isinstance(answer, Problem):
        return await _form_page(view, form | {"metadata": given_rows(form)}, at_rows(answer, form))
    return view.redirect(f"/cardholders/{answer['id']}", notice="The cardholder has been created.")


async def edit(request: Request, view: View) -> Response:
    """The form with the cardholder's present values."""
    found = await view.api.require(_path(request))
    return await _form_page(view, person_form(found), holder=found)


async def update(request: Request, view: View) -> Response:
    """Save the members that differ."""
    found = await view.api.require(_path(request))
    form = nested(view.form().pairs)
    changes = {name: value for name, value in person_of(form).items() if value != found[name]}
    if changes.get("address") == _without_empty(found["address"]):
        changes.pop("address", None)
    here = f"/cardholders/{found['id']}"
    if not changes:
        return view.redirect(here, notice="The cardholder has not changed.")
    answer = await view.api.patch(_path(request), changes)
    if isinstance(answer, Problem):
        return await _form_page(view, form, answer, holder=found)
    return view.redirect(here, notice="The cardholder is changed.")


def _without_empty(address: dict[str, Any] | None) -> dict[str, Any] | None:
    return {name: value for name, value in address.items() if value} if address else None


async def _form_page(
    view: View, form: dict[str, Any], problem: Problem | None = None, holder: dict[str, Any] | None = None
) -> Response:
    fields = {"programme_id": "", **person_fields(form), "metadata": rows(form.get("metadata"))}
    return view.form_page(
        "cardholders/form.html",
        fields,
        problem,
        holder=holder,
        programmes=[] if holder else await programme_choices(view),
    )


def _path(request: Request) -> str:
    return f"/v1/cardholders/{request.path_params['id']}"


PAGES: Final = (
    PageRoute(NEW, new, operation="create_cardholder"),
    PageRoute(NEW, create, "POST", operation="create_cardholder"),
    PageRoute("/cardholders/{id}/edit", edit, operation="update_cardholder"),
    PageRoute("/cardholders/{id}/edit", update, "POST", operation="update_cardholder"),
)
