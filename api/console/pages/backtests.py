"""Back-tests: the list, a new one, and one with its progress or its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.day_chart import day_chart
from api.console.editor import conditions, controls, names
from api.console.editor.changes import added_rows, change_form, change_of, rows_show_change
from api.console.editor.names import edited, nested, placed, text, texts
from api.console.editor.rules import JsonError, json_object, json_text
from api.console.pages.rule_edits import UNSHOWABLE
from api.console.scopes import PATHS, scope_form, scope_of, scopes_of
from api.console.view import PageRoute, View
from api.console.windows import day_window, days_ago, last_instant
from engine.limits import PAGE_LIMIT_MAX

DAYS: Final = 30
"""Length of the window that the form proposes."""
LENGTHS: Final = (7, 30, 90)
ENDED: Final = frozenset({"done", "failed", "cancelled"})
DIRECTIONS: Final = ("approved_to_declined", "declined_to_approved")
FAILURES: Final = {
    "baseline_mismatch": "The recorded decisions were not reproduced, so the figures prove nothing.",
    "interrupted": "Several tasks ended in the middle of the same cards. Create it again.",
    "too_slow": "It took too long. Choose a smaller scope.",
    "internal_error": "An internal error ended it.",
}


class Draft(NamedTuple):
    """The form's content: its fields, and the JSON text of the change in place of its rows."""

    form: dict[str, Any]
    json: str | None = None
    problem: Problem | None = None
    message: str | None = None
    """A sentence about the JSON text."""


async def backtests(_request: Request, view: View) -> Response:
    """The list of back-tests."""
    found, pager = await view.paged("/v1/backtests")
    return view.html(
        "backtests/list.html",
        backtests=found["data"],
        pager=pager,
        scopes=await scopes_of(view),
        paths=PATHS,
        last_instant=last_instant,
    )


async def new_backtest(request: Request, view: View) -> Response:
    """The form of a new back-test. The query may name a scope (``TYPE:ID``), a version of a rule to be added
    (``ID@VERSION``), a rule to be removed, and a number of days."""
    asked = request.query_params
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


async def backtest(request: Request, view: View) -> Response:
    """One back-test. A request of htmx gets the part that changes while it runs."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the back-test in the path, with the ``problem`` of its cancellation."""
    found = await view.api.require(f"/v1/backtests/{request.path_params['id']}")
    template = "backtests/progress.html" if "hx-request" in request.headers else "backtests/backtest.html"
    return view.html(
        template,
        status=200 if problem is None else problem.status,
        backtest=found,
        ended=found["state"] in ENDED,
        failure=FAILURES.get(found["failure"] or ""),
        chart=_chart(found["by_day"]),
        share=_share(found["progress"]),
        last_instant=last_instant,
        change_json=json_text(found["change"]),
        rule_names=await rule_names(view, found),
        rule_label=rule_label,
        scopes=await scopes_of(view),
        paths=PATHS,
        directions=DIRECTIONS,
        words={"condition": conditions.in_words, "control": controls.in_words},
        problem=problem,
    )


async def cancel(request: Request, view: View) -> Response:
    """Cancel the back-test."""
    answer = await view.api.delete(f"/v1/backtests/{request.path_params['id']}")
    if isinstance(answer, Problem):
        return await shown(request, view, answer)
    return view.redirect(f"/backtests/{answer['id']}", notice="The back-test is cancelled.")


async def rule_names(view: View, backtest: dict[str, Any]) -> dict[str, str]:
    """Names of authorization rules by their names in traces without the version, such as ``rule:ID``."""
    found = {f"rule:{each['id']}": each["name"] for each in await _rules(view)}
    for place, added in enumerate(backtest["change"].get("add_rules", ())):
        if isinstance(added, dict):
            found[f"rule:add_rules/{place}"] = f"{added['name']} (new)"
    return found


def rule_label(known: Mapping[str, str], rule: str) -> str:
    """The name of a rule of a trace for people, such as ``No gambling, version 2``."""
    name, _, version = rule.partition("@")
    if name not in known:
        return rule
    return known[name] if "/" in name else f"{known[name]}, version {version}"


async def _rules(view: View) -> list[dict[str, Any]]:
    answer = await view.api.get("/v1/authorization-rules", limit=PAGE_LIMIT_MAX)
    return [] if isinstance(answer, Problem) else answer["data"]


def _body(view: View, form: dict[str, Any]) -> dict[str, Any] | Draft:
    """The body to be sent, or what the form shows next if the button was not that for creating."""
    act, given = text(form, "do"), form.get("json")
    if isinstance(given, str):
        change = _from_json(form, given, act)
        if isinstance(change, Draft):
            return change
    else:
        if edited(form, act):
            return Draft(form)
        change = change_of(_change_fields(form))
        if act == "json":
            return Draft(form, json_text(change))
    window = day_window(view.zone, text(form, "first_day"), text(form, "last_day"))
    return {
        "scope": scope_of(_scope_fields(form)),
        **window,
        "change": change,
        "assume_presented": text(form, "assume_presented") != "false",
    }


def _from_json(form: dict[str, Any], given: str, act: str) -> dict[str, Any] | Draft:
    try:
        change = json_object(given)
    except JsonError as wrong:
        return Draft(form, given, message=str(wrong))
    if act != "rows":
        return change
    if not rows_show_change(change):
        return Draft(form, given, message=UNSHOWABLE)
    return Draft(form | {"change": change_form(change)})


def _refused(form: dict[str, Any], problem: Problem) -> Draft:
    """The form after a refusal. Empty rows are left out, as they were in the body: so pointers fit."""
    given = form.get("json")
    if isinstance(given, str):
        return Draft(form, given, problem)
    fields = _change_fields(form)
    own = fields.get("controls")
    own = own if isinstance(own, dict) else {}
    change = fields | {
        "controls": own | {"add": controls.given_rows(own, "add")},
        "add_rules": [
            row | {"when": conditions.given_rows(row, "when")} if "when" in row else row
            for row in added_rows(fields)
        ],
    }
    return Draft(form | {"change": change}, None, problem)


def _change_fields(form: dict[str, Any]) -> dict[str, Any]:
    fields = form.get("change")
    return fields if isinstance(fields, dict) else {}


def _scope_fields(form: dict[str, Any]) -> dict[str, Any]:
    fields = form.get("scope")
    return fields if isinstance(fields, dict) else {}


async def _form_page(view: View, draft: Draft) -> Response:
    problem = draft.problem
    fields = {"first_day": "", "last_day": "", "assume_presented": "true"}
    form = {**fields, **draft.form, "scope": scope_form(None) | _scope_fields(draft.form)}
    change = _change_fields(form)
    own = change.get("controls")
    own = own if isinstance(own, dict) else {}
    removed_kinds, removed_rules = texts(own, "remove"), texts(change, "remove_rules")
    form["change"] = {
        "controls": {"remove": removed_kinds, "add": names.rows(own.get("add"))},
        "add_rules": [
            row | {"when": conditions.shown_rows(row.get("when"))}
            for row in names.rows(change.get("add_rules"))
        ],
        "remove_rules": removed_rules,
    }
    # The window's pointers are those of instants; the form has days. JSON has no fields for its members.
    named = form | {"from": "", "to": ""}
    if draft.json is not None:
        del named["change"]
    rules = [each for each in await _rules(view) if each["state"] != "retired"]
    return view.html(
        "backtests/editor.html",
        status=200 if problem is None else problem.status,
        form=form,
        json=draft.json,
        message=draft.message,
        problem=problem,
        faults={} if problem is None else placed(problem.errors, named),
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


def _chart(by_day: list[dict[str, Any]] | None) -> Any:
    if not by_day:
        return None
    return day_chart(by_day, {name: [day[name]["count"] for day in by_day] for name in DIRECTIONS})


def _share(progress: dict[str, Any]) -> float | None:
    """The part of the cards that is done; ``None`` before they are counted."""
    cards = progress["cards"]
    return None if cards is None else (progress["cards_done"] / cards if cards else 1.0)


PAGES: Final = (
    PageRoute("/backtests", backtests, operation="list_backtests", label="Back-tests", group="Programmes"),
    PageRoute("/backtests/new", new_backtest, operation="create_backtest"),
    PageRoute("/backtests/new", create, "POST", operation="create_backtest"),
    PageRoute("/backtests/{id}", backtest, operation="get_backtest"),
    PageRoute("/backtests/{id}", cancel, "POST", operation="cancel_backtest"),
)
