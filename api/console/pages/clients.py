"""API clients: create, rotate the secret, revoke. A secret is shown once, on the page that creates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import PageRoute, View
from engine.scopes import ROLES, SCOPES, default_scopes, includes

STATUSES: Final = ("active", "revoked")
OVERLAPS: Final = (
    ("0", "Ends at once, with all tokens and sessions"),
    ("1", "Works for another hour"),
    ("24", "Works for another day"),
    ("168", "Works for another week"),
)
"""Hours in which the old secret still works, with their labels."""


async def clients(request: Request, view: View) -> Response:
    """The clients of the session's mode."""
    status = request.query_params.get("status", "active")
    found, pager = await view.paged("/v1/clients", status=status if status in STATUSES else None)
    return view.html("clients/list.html", clients=found["data"], pager=pager, chosen=status)


async def new(_request: Request, view: View) -> Response:
    """The form for a new client."""
    return _form(view, {"name": "", "role": "user", "every": True, "scopes": []})


async def create(_request: Request, view: View) -> Response:
    """Create a client, and show its secret once."""
    form = view.form()
    every = "every" in form
    given: dict[str, Any] = {"name": form.text("name"), "role": form.get("role", "")}
    scopes = form.all("scopes")
    answer = await view.api.post("/v1/clients", given if every else given | {"scopes": scopes})
    if isinstance(answer, Problem):
        return _form(view, given | {"every": every, "scopes": scopes}, problem=answer)
    return _secret(view, answer, status=201)


def _form(view: View, values: dict[str, Any], *, problem: Problem | None = None) -> Response:
    return view.html(
        "clients/form.html",
        values=values,
        roles=[role for role in ROLES if includes(view.caller.role, role)],
        scopes=[scope for scope in SCOPES if scope in view.caller.scopes],
        defaults={role: _granted(view, role) for role in ROLES},
        problem=problem,
    )


def _granted(view: View, role: str) -> Sequence[str]:
    """The scopes that a new client of ``role`` gets by default."""
    return [scope for scope in default_scopes(role) if scope in view.caller.scopes]


async def client(request: Request, view: View) -> Response:
    """One client."""
    return await _show(view, request.path_params["id"])


async def rotate(request: Request, view: View) -> Response:
    """Create a new secret, and show it once."""
    id_ = request.path_params["id"]
    hours = view.form().get("overlap_hours", "")
    body = {"overlap_hours": int(hours) if hours in dict(OVERLAPS) else None}
    answer = await view.api.post(f"/v1/clients/{id_}/rotate-secret", body)
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return _secret(view, answer)


async def revoke(request: Request, view: View) -> Response:
    """Revoke a client for ever."""
    id_ = request.path_params["id"]
    answer = await view.api.post(f"/v1/clients/{id_}/revoke")
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return view.redirect(f"/clients/{id_}", notice="The client is revoked.")


async def _show(view: View, id_: str, *, problem: Problem | None = None) -> Response:
    found = await view.api.require(f"/v1/clients/{id_}")
    return view.html(
        "clients/client.html",
        client=found,
        overlaps=OVERLAPS,
        problem=problem,
    )


def _secret(view: View, client_: dict[str, Any], *, status: int = 200) -> Response:
    return view.html("clients/secret.html", status=status, client=client_)


PAGES: Final = (
    PageRoute("/clients", clients, operation="list_clients", label="API clients", group="Administration"),
    PageRoute("/clients/new", new, operation="create_client"),
    PageRoute("/clients/new", create, "POST", operation="create_client"),
    PageRoute("/clients/{id}", client, operation="get_client"),
    PageRoute("/clients/{id}/rotate-secret", rotate, "POST", operation="rotate_client_secret"),
    PageRoute("/clients/{id}/revoke", revoke, "POST", operation="revoke_client"),
)
