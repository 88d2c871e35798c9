"""Authorization rules: the list, and a rule with its conditions, its report and its versions."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.day_chart import day_chart
from api.console.editor import conditions
from api.console.scopes import PATHS, scopes_of
from api.console.view import PageRoute, View
from engine.instant import DAY_MS, to_text
from engine.rules.model import TRANSITIONS

REPORT_DAYS: Final = (7, 30, 90)
"""Lengths of the report's window."""
VERSIONS_SHOWN: Final = 20
ACTS: Final = {"shadow": "shadow", "active": "activate", "retired": "retire"}
"""The last part of the operation's path by the state to which it leads."""
NOTICES: Final = {
    "shadow": "The rule is in shadow: its matches are reported, and it declines nothing.",
    "active": "The rule is active: it applies to every authorization from now on.",
    "retired": "The rule is retired.",
}


async def rules(request: Request, view: View) -> Response:
    """The list of rules."""
    filters = {
        name: request.query_params.get(name, "").strip() for name in ("scope_type", "scope_id", "state")
    }
    found = await view.listed("/v1/authorization-rules", **filters)
    return view.html(
        "rules/list.html",
        rules=found.rows,
        problem=found.problem,
        pager=found.pager,
        filters=filters,
        scopes=await scopes_of(view),
        paths=PATHS,
    )


async def rule(request: Request, view: View) -> Response:
    """One rule."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the rule in the path, with the ``problem`` of an act on it."""
    rule_id = request.path_params["id"]
    found = await view.api.require(f"/v1/authorization-rules/{rule_id}")
    versions = await view.api.require(f"/v1/authorization-rules/{rule_id}/versions", limit=VERSIONS_SHOWN)
    days = _days(request.query_params.get("days"))
    now_ms = view.services.clock.now_ms()
    window = {"from": to_text(now_ms - days * DAY_MS), "to": to_text(now_ms)}
    report = await view.api.get(f"/v1/authorization-rules/{rule_id}/report", window)
    return view.html(
        "rules/rule.html",
        rule=found,
        versions=versions["data"],
        report=report,
        charts={} if isinstance(report, Problem) else _charts(report),
        unreadable=isinstance(report, Problem),
        days=days,
        lengths=REPORT_DAYS,
        next_states=sorted(TRANSITIONS[found["state"]], key=list(ACTS).index),
        scopes=await scopes_of(view),
        paths=PATHS,
        in_words=conditions.in_words,
        problem=problem,
    )


async def change_state(request: Request, view: View) -> Response:
    """Put the rule in shadow, activate or retire it."""
    state = view.form().get("state", "")
    rule_id = request.path_params["id"]
    if state not in ACTS:
        return await shown(request, view)
    answer = await view.api.post(f"/v1/authorization-rules/{rule_id}/{ACTS[state]}")
    if isinstance(answer, Problem):
        return await shown(request, view, answer)
    return view.redirect(f"/rules/{rule_id}", notice=NOTICES[state])


def _days(given: str | None) -> int:
    return next((days for days in REPORT_DAYS if str(days) == given), REPORT_DAYS[1])


def _charts(report: dict[str, Any]) -> dict[int, Any]:
    """The chart of each version with matches, by version."""
    charts = {}
    for each in report["versions"]:
        counts = {name: [day[name] for day in each["by_day"]] for name in ("declined", "approved")}
        charts[each["version"]] = day_chart(each["by_day"], counts)
    return charts


PAGES: Final = (
    PageRoute("/rules", rules, operation="list_authorization_rules", label="Rules", group="Programmes"),
    PageRoute("/rules/{id}", rule, operation="get_authorization_rule"),
    PageRoute("/rules/{id}", change_state, "POST", operation="activate_authorization_rule"),
)
