"""The forms for a new webhook endpoint and for its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.pages.webhooks import path_of
from api.console.view import Form, PageRoute, View
from engine.webhooks.catalogue import ALL_TYPES, CATALOGUE

_EMPTY: Final[Mapping[str, Any]] = {"url": "", "description": "", "event_types": [ALL_TYPES]}


async def new(_request: Request, view: View) -> Response:
    """The form for a new endpoint."""
    return _form(view, _EMPTY)


async def create(_request: Request, view: View) -> Response:
    """Create an endpoint, and show its signing secret once."""
    given = _values(view.form())
    answer = await view.api.post("/v1/webhook-endpoints", given)
    if isinstance(answer, Problem):
        return _form(view, given, problem=answer)
    return view.html("webhooks/created.html", status=201, endpoint=answer, secret=answer["secret"])


async def edit(request: Request, view: View) -> Response:
    """The form with the endpoint's present values."""
    found = await view.api.require(path_of(request.path_params["id"]))
    return _form(view, found, id_=found["id"])


async def update(request: Request, view: View) -> Response:
    """Change an endpoint."""
    id_, given = request.path_params["id"], _values(view.form())
    answer = await view.api.patch(path_of(id_), given)
    if isinstance(answer, Problem):
        return _form(view, given, id_=id_, problem=answer)
    return view.redirect(f"/webhooks/{id_}", notice="The endpoint is changed.")


def _values(form: Form) -> dict[str, Any]:
    """The body for the API. The checkbox for all types stands above the others."""
    types = form.all("event_types")
    return {
        "url": form.get("url", "").strip(),
        "description": form.text("description"),
        "event_types": [ALL_TYPES] if ALL_TYPES in types else types,
    }


def _form(
    view: View, values: Mapping[str, Any], *, id_: str | None = None, problem: Problem | None = None
) -> Response:
    groups: dict[str, list[Any]] = {}
    for entry in CATALOGUE.values():
        groups.setdefault(entry.type.partition(".")[0].replace("_", " "), []).append(entry)
    return view.html(
        "webhooks/form.html",
        id=id_,
        values=values,
        groups=groups,
        all_types=ALL_TYPES,
        problem=problem,
    )


PAGES: Final = (
    PageRoute("/webhooks/new", new, operation="create_webhook_endpoint"),
    PageRoute("/webhooks/new", create, "POST", operation="create_webhook_endpoint"),
    PageRoute("/webhooks/{id}/edit", edit, operation="update_webhook_endpoint"),
    PageRoute("/webhooks/{id}/edit", update, "POST", operation="update_webhook_endpoint"),
)
