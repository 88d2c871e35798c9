"""The decisions that a back-test turns, each with both traces side by side, and their download."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.pages.backtests import DIRECTIONS, rule_label, rule_names
from api.console.trace_pairs import side_by_side
from api.console.view import PageRoute, View


async def flips(request: Request, view: View) -> Response:
    """One page of flips, of one direction or of both."""
    backtest = await view.api.require(f"/v1/backtests/{request.path_params['id']}")
    direction = request.query_params.get("direction", "")
    found, pager = await view.paged(f"/v1/backtests/{backtest['id']}/flips", direction=direction)
    return view.html(
        "backtests/flips.html",
        backtest=backtest,
        flips=found["data"],
        pager=pager,
        direction=direction,
        directions=DIRECTIONS,
        rule_names=await rule_names(view, backtest),
        rule_label=rule_label,
        side_by_side=side_by_side,
    )


async def download(request: Request, view: View) -> Response:
    """All flips as CSV."""
    backtest = await view.api.require(f"/v1/backtests/{request.path_params['id']}")
    path = f"/v1/backtests/{backtest['id']}/flips.csv"
    return view.api.download(path, filename=f"flips-{backtest['id']}.csv")


PAGES: Final = (
    PageRoute("/backtests/{id}/flips", flips, operation="list_backtest_flips"),
    PageRoute("/backtests/{id}/flips.csv", download, operation="download_backtest_flips"),
)
