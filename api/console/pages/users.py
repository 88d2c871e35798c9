"""Users of the tenant: list, invite, change, disable."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import Form, PageRoute, View
from engine.scopes import MODES, REVEAL, ROLES, includes

ACTS: Final = {
    "disable": "{name} is disabled. All sessions have ended.",
    "enable": "{name} can sign in again.",
    "reset-totp": "{name} signs in without a one-time code.",
    "end-sessions": "All sessions of {name} have ended.",
}
"""What the page says after an act of the API."""


async def users(request: Request, view: View) -> Response:
    """The users who may see the mode of the session."""
    status = request.query_params.get("status")
    found, pager = await view.paged("/v1/users", status=status)
    return view.html("users/users.html", users=found["data"], pager=pager, wanted=status)


async def new_user(_request: Request, view: View) -> Response:
    """The form of an invitation."""
    return _form_page(view, {"modes": [view.mode], "role": "user"}, None)


async def create_user(_request: Request, view: View) -> Response:
    """Create the user, and show the invitation once."""
    form = view.form()
    body = {"email": form.get("email", "").strip(), **_rights(form)}
    answer = await view.api.post("/v1/users", body)
    if isinstance(answer, Problem):
        return _form_page(view, body, answer)
    return view.html("users/invitation.html", user=answer)


def _form_page(view: View, given: dict[str, Any], problem: Problem | None) -> Response:
    return view.html(
        "users/new.html",
        given=given,
        problem=problem,
        **_choices(view),
    )


async def user(request: Request, view: View) -> Response:
    """One user, with what the session may do with it."""
    return await _user_page(view, request.path_params["id"], None)


async def _user_page(view: View, user_id: str, problem: Problem | None) -> Response:
    found = await view.api.require(f"/v1/users/{user_id}")
    return view.html(
        "users/user.html",
        user=found,
        own=found["id"] == view.caller.id,
        problem=problem,
        **_choices(view),
    )


async def update_user(request: Request, view: View) -> Response:
    """Change name, role, modes and the right to show card numbers."""
    user_id = request.path_params["id"]
    answer = await view.api.patch(f"/v1/users/{user_id}", _rights(view.form()))
    if isinstance(answer, Problem):
        return await _user_page(view, user_id, answer)
    return view.redirect(f"/users/{user_id}", notice=f"{answer['name']} is changed.")


async def invite_user(request: Request, view: View) -> Response:
    """A new invitation, which also sets a forgotten password."""
    user_id = request.path_params["id"]
    answer = await view.api.post(f"/v1/users/{user_id}/invite")
    if isinstance(answer, Problem):
        return await _user_page(view, user_id, answer)
    return view.html("users/invitation.html", user=answer)


async def act_on_user(request: Request, view: View) -> Response:
    """Carry out one of ``ACTS``."""
    user_id, act = request.path_params["id"], request.url.path.rpartition("/")[2]
    answer = await view.api.post(f"/v1/users/{user_id}/{act}")
    if isinstance(answer, Problem):
        return await _user_page(view, user_id, answer)
    return view.redirect(f"/users/{user_id}", notice=ACTS[act].format(name=answer["name"]))


def _rights(form: Form) -> dict[str, Any]:
    return {
        "name": form.get("name", "").strip(),
        "role": form.get("role", ""),
        "modes": form.all("modes"),
        "reveal": form.get("reveal") == "true",
    }


def _choices(view: View) -> dict[str, Any]:
    """What the session may give: nothing beyond its own rights."""
    return {
        "roles": [role for role in ROLES if includes(view.caller.role, role)],
        "modes": [mode for mode in MODES if mode in view.caller.all_modes],
        "reveals": REVEAL in view.caller.scopes,
    }


PAGES: Final = (
    PageRoute("/users", users, operation="list_users", label="Users", group="Administration"),
    PageRoute("/users", create_user, "POST", operation="create_user"),
    PageRoute("/users/new", new_user, operation="create_user"),
    PageRoute("/users/{id}", user, operation="get_user"),
    PageRoute("/users/{id}", update_user, "POST", operation="update_user"),
    PageRoute("/users/{id}/invite", invite_user, "POST", operation="invite_user"),
    PageRoute("/users/{id}/disable", act_on_user, "POST", operation="disable_user"),
    PageRoute("/users/{id}/enable", act_on_user, "POST", operation="enable_user"),
    PageRoute("/users/{id}/reset-totp", act_on_user, "POST", operation="reset_user_totp"),
    PageRoute("/users/{id}/end-sessions", act_on_user, "POST", operation="end_user_sessions"),
)
