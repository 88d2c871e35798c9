"""Identity verification: the queue of checks, and the decision of a reviewer.

The pages show no submitted data: those are in custody, and each reading is on record.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import PageRoute, View
from engine.kyc.facts import REASONS
from engine.kyc.flows import needs
from engine.kyc.states import STATES

ALL: Final = "all"
IN_REVIEW: Final = "in_review"


async def checks(request: Request, view: View) -> Response:
    """Checks of one state; at first those that wait for a reviewer."""
    state, holder = request.query_params.get("state", IN_REVIEW), request.query_params.get("cardholder_id")
    found, pager = await view.paged(
        "/v1/kyc/checks", state=state if state in STATES else None, cardholder_id=holder
    )
    return view.html(
        "kyc/list.html", checks=found["data"], pager=pager, state=state, states=(*STATES, ALL), holder=holder
    )


async def check(request: Request, view: View) -> Response:
    """One check."""
    return await _show(view, request.path_params["id"])


async def review(request: Request, view: View) -> Response:
    """Decide on a check in review."""
    id_, form = request.path_params["id"], view.form()
    given: dict[str, Any] = {
        "outcome": form.get("outcome", ""),
        "reason_codes": form.all("reason_codes"),
        "awaiting": form.all("awaiting"),
    }
    answer = await view.api.post(f"/v1/kyc/checks/{id_}/review", given)
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer, given=given)
    return view.redirect(f"/kyc/{id_}", notice=f"The check is {answer['state'].replace('_', ' ')}.")


async def _show(
    view: View, id_: str, *, problem: Problem | None = None, given: dict[str, Any] | None = None
) -> Response:
    found = await view.api.require(f"/v1/kyc/checks/{id_}")
    holder = None
    if view.may("get_cardholder"):
        answer = await view.api.get(f"/v1/cardholders/{found['cardholder_id']}")
        holder = None if isinstance(answer, Problem) else answer
    return view.html(
        "kyc/check.html",
        check=found,
        holder=holder,
        inputs=needs(found["flow_key"]),
        reasons=REASONS,
        given=given or {"outcome": "", "reason_codes": [], "awaiting": []},
        problem=problem,
    )


PAGES: Final = (
    PageRoute("/kyc", checks, operation="list_kyc_checks", label="Identity verification", group="Cards"),
    PageRoute("/kyc/{id}", check, operation="get_kyc_check"),
    PageRoute("/kyc/{id}/review", review, "POST", operation="review_kyc_check"),
)
