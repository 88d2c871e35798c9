"""The form of a new back-test: scope, days, and the change as rows or as JSON."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor import conditions, controls
from api.console.editor.changes import added_rows, change_form, change_of, rows_show_change
from api.console.editor.drafts import Draft, from_json
from api.console.editor.names import edited, group, nested, rows, text, texts
from api.console.editor.rules import json_text
from api.console.pages.backtests import newest_rules
from api.console.scopes import scope_form, scope_of, scopes_of
from api.console.view import PageRoute, View
from api.console.windows import day_of, day_window, days_ago, last_instant
from api.operations.call import require_id

DAYS: Final = 30
"""Length of the window that the form proposes."""
LENGTHS: Final = (7, 30, 90)


async def new_backtest(request: Request, view: View) -> Response:
    """The form of a new back-test. The query may name a scope (``TYPE:ID``), a version of a rule to be added
    (``ID@VERSION``), a rule to be removed, and a number of days; or the back-test to be repeated
    (``again``)."""
    asked = request.query_params
    if "again" in asked:
        found = await view.api.require(f"/v1/backtests/{require_id(asked['again'])}")
        return await _form_page(view, _again(view, found))
    type_, _, id_ = asked.get("scope", "").partition(":")
    change = {
        "add_rules": [asked["add"]] if "add" in asked else [],
        "remove_rules": [asked["remove"]] if "remove" in asked else [],
    }
    days = next((each for each in LENGTHS if str(each) == asked.get("days")), DAYS)
    now_ms = view.services.clock.now_ms()
    form = {
        "scope": scope_form({"type": type_, "id": id_} if id_ else None),
        "first_day": days_ago(view.zone, now_ms, days - 1),
        "last_day": days_ago(view.zone, now_ms, 0),
        "assume_presented": "true",
        "change": change_form(change),
    }
    return await _form_page(view, Draft(form))


def _again(view: View, backtest: dict[str, Any]) -> Draft:
    """The form with the scope, the days and the change of a back-test."""
    change = backtest["change"]
    form = {
        "scope": scope_form(backtest["scope"]),
        "first_day": day_of(view.zone, backtest["from"]),
        "last_day": day_of(view.zone, last_instant(backtest["to"])),
        "assume_presented": "true" if backtest["assume_presented"] else "false",
        "change": change_form(change),
    }
    return Draft(form, None if rows_show_change(change) else json_text(change))


async def create(_request: Request, view: View) -> Response:
    """Create the back-test, or change the form's rows."""
    form = nested(view.form().pairs)
    body = _body(view, form)
    if isinstance(body, Draft):
        return await _form_page(view, body)
    answer = await view.api.post("/v1/backtests", body)
    if isinstance(answer, Problem):
        return await _form_page(view, _refused(form, answer))
    return view.redirect(f"/backtests/{answer['id']}")


def _body(view: View, form: dict[str, Any]) -> dict[str, Any] | Draft:
    """The body to be sent, or what the form shows next if the button was not that for creating."""
    act, given = text(form, "do"), form.get("json")
    if isinstance(given, str):
        change = from_json(form, given, act, rows_show_change, lambda value: {"change": change_form(value)})
        if isinstance(change, Draft):
            return change
    else:
        if edited(form, act):
            return Draft(form)
        change = change_of(group(form, "change"))
        if act == "json":
            return Draft(form, json_text(change))
    window = day_window(view.zone, text(form, "first_day"), text(form, "last_day"))
    return {
        "scope": scope_of(group(form, "scope")),
        **window,
        "change": change,
        "assume_presented": text(form, "assume_presented") != "false",
    }


def _refused(form: dict[str, Any], problem: Problem) -> Draft:
    """The form after a refusal. Empty rows are left out, as they were in the body: so pointers fit."""
    given = form.get("json")
    if isinstance(given, str):
        return Draft(form, given, problem)
    fields = group(form, "change")
    own = group(fields, "controls")
    change = fields | {
        "controls": own | {"add": controls.given_rows(own, "add")},
        "add_rules": [
            row | {"when": conditions.given_rows(row, "when")} if "when" in row else row
            for row in added_rows(fields)
        ],
    }
    return Draft(form | {"change": change}, None, problem)


async def _form_page(view: View, draft: Draft) -> Response:
    fields = {"first_day": "", "last_day": "", "assume_presented": "true"}
    form = {**fields, **draft.form, "scope": scope_form(None) | group(draft.form, "scope")}
    change = group(form, "change")
    own = group(change, "controls")
    removed_kinds, removed_rules = texts(own, "remove"), texts(change, "remove_rules")
    form["change"] = {
        "controls": {"remove": removed_kinds, "add": rows(own.get("add"))},
        "add_rules": [
            row | {"when": conditions.shown_rows(row.get("when"))} for row in rows(change.get("add_rules"))
        ],
        "remove_rules": removed_rules,
    }
    # The window's pointers are those of instants; the form has days. JSON has no fields for its members.
    named = form | {"from": "", "to": ""}
    if draft.json is not None:
        del named["change"]
    rules = [each for each in await newest_rules(view) if each["state"] != "retired"]
    return view.form_page(
        "backtests/editor.html",
        form,
        draft.problem,
        names=named,
        json=draft.json,
        message=draft.message,
        scopes=await scopes_of(view),
        rules=rules,
        known_versions=[f"{each['id']}@{each['version']}" for each in rules],
        removable=_removable(rules, removed_rules),
        editor=conditions,
        controls=controls,
    )


def _removable(rules: list[dict[str, Any]], chosen: list[str]) -> list[tuple[str, str]]:
    """The rules that a change can remove, with their names: the active ones, and those that are chosen."""
    active = {each["id"]: each["name"] for each in rules if each["state"] == "active"}
    return [*active.items(), *((each, each) for each in chosen if each not in active)]


PAGES: Final = (
    PageRoute("/backtests/new", new_backtest, operation="create_backtest"),
    PageRoute("/backtests/new", create, "POST", operation="create_backtest"),
)
