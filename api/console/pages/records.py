"""The tenant's own records on an object: its reference and its metadata, in one form for every kind."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor.names import edited, nested, rows, text
from api.console.editor.pairs import at_rows, change_of, given_rows, pair_rows
from api.console.view import Handler, PageRoute, View

NOTICE: Final = "Reference and metadata are saved."


class Kind(NamedTuple):
    """A kind of objects with metadata."""

    name: str
    """In words."""
    path: str
    """Below the API and below the console, if they are the same."""
    operation: str
    """The operation that changes it."""
    console: str = ""
    """Below the console, if that differs."""
    referenced: bool = True
    """Whether the reference can change, too."""

    @property
    def page(self) -> str:
        """The path of its pages below the console."""
        return self.console or self.path


KINDS: Final = (
    Kind("programme", "/programs", "update_program", console="/programmes"),
    Kind("card product", "/card-products", "update_card_product"),
    Kind("cardholder", "/cardholders", "update_cardholder"),
    Kind("card", "/cards", "update_card"),
    Kind("transaction", "/transactions", "update_transaction", referenced=False),
)


async def _form(kind: Kind, request: Request, view: View) -> Response:
    """The form with the present reference and pairs."""
    found = await view.api.require(_path(kind, request))
    form = {"external_ref": found.get("external_ref") or "", "metadata": pair_rows(found["metadata"])}
    return _form_page(kind, view, found, form)


async def _save(kind: Kind, request: Request, view: View) -> Response:
    """Save what differs, or change the form's rows."""
    found = await view.api.require(_path(kind, request))
    form = nested(view.form().pairs)
    if edited(form, text(form, "do")):
        return _form_page(kind, view, found, form)
    body = _change(kind, found, form)
    if body:
        answer = await view.api.patch(_path(kind, request), body)
        if isinstance(answer, Problem):
            shown = form | {"metadata": given_rows(form)}
            return _form_page(kind, view, found, shown, at_rows(answer, form))
    return view.redirect(f"{kind.page}/{found['id']}", notice=NOTICE)


def _change(kind: Kind, found: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """The members of the API's change that differ from the object."""
    change: dict[str, Any] = {}
    pairs = change_of(found["metadata"], form)
    if pairs:
        change["metadata"] = pairs
    if kind.referenced and (text(form, "external_ref") or None) != found["external_ref"]:
        change["external_ref"] = text(form, "external_ref") or None
    return change


def _form_page(
    kind: Kind, view: View, found: dict[str, Any], form: dict[str, Any], problem: Problem | None = None
) -> Response:
    fields = {"external_ref": "", **form, "metadata": rows(form.get("metadata"))}
    here = f"{kind.page}/{found['id']}"
    return view.form_page("records/form.html", fields, problem, kind=kind, here=here)


def _path(kind: Kind, request: Request) -> str:
    return f"/v1{kind.path}/{request.path_params['id']}"


def _pages(kind: Kind) -> tuple[PageRoute, ...]:
    path = f"{kind.page}/{{id}}/records"
    form: Handler = partial(_form, kind)
    save: Handler = partial(_save, kind)
    return (
        PageRoute(path, form, operation=kind.operation),
        PageRoute(path, save, "POST", operation=kind.operation),
    )


PAGES: Final = tuple(page for kind in KINDS for page in _pages(kind))
