"""Exports: the list with the form of a new one, and one with its progress and its download."""

from __future__ import annotations

from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import PageRoute, View
from api.console.windows import day_window, days_ago, last_instant
from api.exports.columns import ExportKind, Format

ENDED: Final = frozenset({"completed", "failed"})
DAYS: Final = 30
FAILURES: Final = {
    "too_large": "The content is too large. Choose a shorter window.",
    "too_slow": "It took too long. Choose a shorter window.",
    "interrupted": "Several API servers that wrote it ended. Create it again.",
    "internal_error": "An internal error ended it.",
}


async def exports(_request: Request, view: View) -> Response:
    """The list of exports."""
    now_ms = view.services.clock.now_ms()
    form = {
        "kind": "transactions",
        "format": "csv",
        "first_day": days_ago(view.zone, now_ms, DAYS - 1),
        "last_day": days_ago(view.zone, now_ms, 0),
    }
    return await _list(view, form)


async def create(_request: Request, view: View) -> Response:
    """Create an export."""
    form = {name: view.form().get(name, "") for name in ("kind", "format", "first_day", "last_day")}
    body: dict[str, Any] = {name: form[name] for name in ("kind", "format")}
    body |= day_window(view.zone, form["first_day"], form["last_day"])
    answer = await view.api.post("/v1/exports", body)
    if isinstance(answer, Problem):
        return await _list(view, form, answer)
    return view.redirect(f"/exports/{answer['id']}")


async def export(request: Request, view: View) -> Response:
    """One export. A request of htmx gets the part that changes while it is written."""
    found = await view.api.require(f"/v1/exports/{request.path_params['id']}")
    template = "exports/progress.html" if "hx-request" in request.headers else "exports/export.html"
    estimated = found["rows_estimated"]
    return view.html(
        template,
        export=found,
        ended=found["state"] in ENDED,
        last_instant=last_instant,
        failure=FAILURES.get(found["failure"] or ""),
        share=min(1.0, found["rows"] / estimated) if estimated else None,
    )


async def _list(view: View, form: dict[str, str], problem: Problem | None = None) -> Response:
    found, pager = await view.paged("/v1/exports")
    # The API's pointers are those of instants; the form has days.
    named = form | {"from": "", "to": ""}
    return view.form_page(
        "exports/list.html",
        form,
        problem,
        names=named,
        exports=found["data"],
        last_instant=last_instant,
        pager=pager,
        kinds=get_args(ExportKind),
        formats=get_args(Format),
    )


PAGES: Final = (
    PageRoute("/exports", exports, operation="list_exports", label="Exports", group="Money"),
    PageRoute("/exports", create, "POST", operation="create_export"),
    PageRoute("/exports/{id}", export, operation="get_export"),
)
