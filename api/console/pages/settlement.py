"""The settlement report of one programme and day."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.scopes import scopes_of
from api.console.view import PageRoute, View
from api.console.windows import days_ago

PARTS: Final = ("authorized", "presented", "refunded", "fees")


async def settlement(request: Request, view: View) -> Response:
    """The report of the programme and the day in the query; without them, only the form."""
    asked, scopes = request.query_params, await scopes_of(view)
    only = scopes.programmes[0].value.partition(":")[2] if len(scopes.programmes) == 1 else ""
    programme_id = asked.get("programme_id", "").strip() or only
    date = asked.get("date", "") or days_ago(view.zone, view.services.clock.now_ms(), 1)
    answer = (
        await view.api.get("/v1/settlement-reports", programme_id=programme_id, date=date)
        if programme_id
        else None
    )
    problem = answer if isinstance(answer, Problem) else None
    return view.html(
        "transfers/settlement.html",
        report=None if problem else answer,
        problem=problem,
        programme_id=programme_id,
        date=date,
        scopes=scopes,
        parts_of_report=PARTS,
    )


PAGES: Final = (
    PageRoute(
        "/settlement", settlement, operation="get_settlement_report", label="Settlement", group="Money"
    ),
)
