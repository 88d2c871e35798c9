"""Back-tests: the list, and one with its progress or its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.day_chart import day_chart
from api.console.editor import conditions, controls
from api.console.editor.rules import json_text
from api.console.scopes import PATHS, scopes_of
from api.console.view import PageRoute, View
from api.console.windows import last_instant
from engine.limits import PAGE_LIMIT_MAX

ENDED: Final = frozenset({"done", "failed", "cancelled"})
DIRECTIONS: Final = ("approved_to_declined", "declined_to_approved")
FAILURES: Final = {
    "baseline_mismatch": "The recorded decisions were not reproduced, so the figures prove nothing.",
    "interrupted": "Several tasks ended in the middle of the same cards. Create it again.",
    "too_slow": "It took too long. Choose a smaller scope.",
    "internal_error": "An internal error ended it.",
}


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


async def backtest(request: Request, view: View) -> Response:
    """One back-test. A request of htmx gets the part that changes while it runs."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the back-test in the path, with the ``problem`` of its cancellation."""
    found = await view.api.require(f"/v1/backtests/{request.path_params['id']}")
    fragment = "hx-request" in request.headers
    return view.html(
        "backtests/progress.html" if fragment else "backtests/backtest.html",
        backtest=found,
        ended=found["state"] in ENDED,
        failure=FAILURES.get(found["failure"] or ""),
        chart=_chart(found["by_day"]),
        share=_share(found["progress"]),
        last_instant=last_instant,
        change_json=json_text(found["change"]),
        # A running back-test is asked for each second: only what its fragment shows is read.
        rule_names={} if fragment and found["state"] != "done" else await rule_names(view, found),
        rule_label=rule_label,
        scopes=None if fragment else await scopes_of(view),
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
    found = {f"rule:{each['id']}": each["name"] for each in await newest_rules(view)}
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


async def newest_rules(view: View) -> list[dict[str, Any]]:
    """The newest authorization rules that the caller may read."""
    answer = await view.api.get("/v1/authorization-rules", limit=PAGE_LIMIT_MAX)
    return [] if isinstance(answer, Problem) else answer["data"]


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
    PageRoute("/backtests/{id}", backtest, operation="get_backtest"),
    PageRoute("/backtests/{id}", cancel, "POST", operation="cancel_backtest"),
)
