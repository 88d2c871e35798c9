"""The rule editor: a new rule, or a new version of a rule, as rows of conditions or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor import conditions
from api.console.editor.drafts import Draft, from_json
from api.console.editor.names import edited, group, nested, text
from api.console.editor.rules import json_text, rows_show_rule, rule_form, rule_of
from api.console.scopes import scope_form, scope_of, scopes_of
from api.console.view import PageRoute, View

STATES: Final = (
    ("draft", "draft: not evaluated"),
    ("shadow", "shadow: evaluated and reported, declines nothing"),
    ("active", "active: decides"),
)


async def new_rule(request: Request, view: View) -> Response:
    """The editor of a new rule; the query may name its scope as ``TYPE:ID``."""
    type_, _, id_ = request.query_params.get("scope", "").partition(":")
    form = {"scope": scope_form({"type": type_, "id": id_} if id_ else None), "state": "draft"}
    return await _editor(view, Draft(form), None)


async def create(_request: Request, view: View) -> Response:
    """Create the rule, or change the editor's rows."""
    form = nested(view.form().pairs)
    body = _body(form, None)
    if isinstance(body, Draft):
        return await _editor(view, body, None)
    answer = await view.api.post("/v1/authorization-rules", body)
    if isinstance(answer, Problem):
        return await _editor(view, _refused(form, answer), None)
    return view.redirect(f"/rules/{answer['id']}", notice="The rule has been created.")


async def edit(request: Request, view: View) -> Response:
    """The editor of an existing rule."""
    rule = await view.api.require(f"/v1/authorization-rules/{request.path_params['id']}")
    return await _editor(view, Draft(rule_form(rule)), rule)


async def update(request: Request, view: View) -> Response:
    """Save a new version, or change the editor's rows."""
    path = f"/v1/authorization-rules/{request.path_params['id']}"
    rule = await view.api.require(path)
    form = nested(view.form().pairs)
    body = _body(form, rule)
    if isinstance(body, Draft):
        return await _editor(view, body, rule)
    answer = await view.api.patch(path, body)
    if isinstance(answer, Problem):
        return await _editor(view, _refused(form, answer), rule)
    saved = answer["version"] > rule["version"]
    notice = f"Version {answer['version']} is saved." if saved else "The rule has not changed."
    return view.redirect(f"/rules/{answer['id']}", notice=notice)


def _body(form: dict[str, Any], rule: dict[str, Any] | None) -> dict[str, Any] | Draft:
    """The body to be sent, or what the editor shows next if the button was not that for saving."""
    act, given = text(form, "do"), form.get("json")
    if isinstance(given, str):
        return from_json(form, given, act, rows_show_rule, _fields_of)
    if edited(form, act):
        return Draft(form)
    body = rule_of(form)
    if rule is None:
        body = {"name": body.pop("name"), "scope": scope_of(group(form, "scope")), **body}
    else:
        body.pop("state", None)
    return Draft(form, json_text(body)) if act == "json" else body


def _fields_of(rule: Mapping[str, Any]) -> dict[str, Any]:
    return rule_form(rule) | {"scope": scope_form(rule.get("scope"))}


def _refused(form: dict[str, Any], problem: Problem) -> Draft:
    """The editor after a refusal. Empty rows are left out, as they were in the body: so pointers fit."""
    given = form.get("json")
    rows = {"when": conditions.given_rows(form, "when"), "scope": group(form, "scope")}
    return Draft(form | rows, given if isinstance(given, str) else None, problem)


async def _editor(view: View, draft: Draft, rule: dict[str, Any] | None) -> Response:
    form = {"name": "", "action": "decline", "reason": "", "state": "draft", **draft.form}
    form["scope"] = scope_form(None) | group(draft.form, "scope")
    form["when"] = conditions.shown_rows(draft.form.get("when"))
    return view.form_page(
        "rules/editor.html",
        form,
        draft.problem,
        names=form if draft.json is None else {},
        rule=rule,
        json=draft.json,
        message=draft.message,
        scopes=None if rule else await scopes_of(view),
        states=STATES,
        editor=conditions,
    )


PAGES: Final = (
    PageRoute("/rules/new", new_rule, operation="create_authorization_rule"),
    PageRoute("/rules/new", create, "POST", operation="create_authorization_rule"),
    PageRoute("/rules/{id}/edit", edit, operation="update_authorization_rule"),
    PageRoute("/rules/{id}/edit", update, "POST", operation="update_authorization_rule"),
)
