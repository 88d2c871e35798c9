"""Cardholders: their list, and the page of one cardholder with cards, KYC checks and status."""

from __future__ import annotations

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.cardholders.changes import TRANSITIONS
from api.cardholders.routes import CardholderStatus
from api.console.api_calls import Problem
from api.console.lookups import one, programmes_of, rows_of
from api.console.view import PageRoute, View
from engine.kyc import flows as kyc_flows
from engine.limits import PAGE_LIMIT_MAX

FILTERS: Final = ("email", "external_ref", "status", "programme_id")
NOTICES: Final = {
    "active": "The cardholder is active; the cards may spend again.",
    "blocked": "The cardholder is blocked: all cards decline.",
    "closed": "The cardholder is closed for good.",
}

FLOWS: Final = (
    ("basic", "basic: names, date of birth, nationality, address"),
    ("document", "document: also a document"),
    ("full", "full: also pictures"),
)

assert {name for name, _ in FLOWS} == set(kyc_flows.FLOWS)


async def cardholders(_request: Request, view: View) -> Response:
    """The list with its filters."""
    given = view.request.query_params
    query = {name: given.get(name, "").strip() or None for name in FILTERS}
    found = await view.listed("/v1/cardholders", **query)
    return view.html(
        "cardholders/list.html",
        status=found.status,
        rows=found.rows,
        pager=found.pager,
        problem=found.problem,
        query=query,
        filtered=sum(value is not None for value in query.values()),
        statuses=get_args(CardholderStatus),
        programmes=await programmes_of(view),
    )


async def cardholder(request: Request, view: View) -> Response:
    """One cardholder."""
    return await _page(view, request.path_params["id"])


async def change_status(request: Request, view: View) -> Response:
    """Block, unblock or close the cardholder."""
    id_ = request.path_params["id"]
    answer = await view.api.patch(f"/v1/cardholders/{id_}", {"status": view.form().get("status", "")})
    if isinstance(answer, Problem):
        return await _page(view, id_, answer)
    return view.redirect(f"/cardholders/{id_}", notice=NOTICES[answer["status"]])


async def start_check(request: Request, view: View) -> Response:
    """Start an identity check, and go to its page."""
    id_ = request.path_params["id"]
    body = {"cardholder_id": id_, "flow_key": view.form().get("flow_key", "")}
    answer = await view.api.post("/v1/kyc/checks", body)
    if isinstance(answer, Problem):
        return await _page(view, id_, answer)
    return view.redirect(f"/kyc/{answer['id']}", notice="The check has begun.")


async def erase(request: Request, view: View) -> Response:
    """Destroy the cardholder's personal data."""
    id_ = request.path_params["id"]
    answer = await view.api.delete(f"/v1/cardholders/{id_}")
    if isinstance(answer, Problem):
        return await _page(view, id_, answer)
    return view.redirect(f"/cardholders/{id_}", notice="The personal data of the cardholder are destroyed.")


async def _page(view: View, id_: str, problem: Problem | None = None) -> Response:
    found = await view.api.require(f"/v1/cardholders/{id_}")
    of_holder = {"cardholder_id": found["id"], "limit": PAGE_LIMIT_MAX}
    cards = checks = None
    if view.may("list_cards"):
        cards = await view.api.get("/v1/cards", of_holder)
    if view.may("list_kyc_checks"):
        checks = await view.api.get("/v1/kyc/checks", of_holder)
    return view.html(
        "cardholders/page.html",
        problem=problem,
        holder=found,
        moves=TRANSITIONS[found["status"]] if found["erased_at"] is None else frozenset(),
        programme=await one(view, "get_program", f"/v1/programs/{found['programme_id']}"),
        cards=None if cards is None else rows_of(cards),
        flows=FLOWS,
        checks=None if checks is None else rows_of(checks),
    )


PAGES: Final = (
    PageRoute("/cardholders", cardholders, operation="list_cardholders", label="Cardholders", group="Cards"),
    PageRoute("/cardholders/{id}", cardholder, operation="get_cardholder"),
    PageRoute("/cardholders/{id}/status", change_status, method="POST", operation="update_cardholder"),
    PageRoute("/cardholders/{id}/checks", start_check, method="POST", operation="create_kyc_check"),
    PageRoute("/cardholders/{id}/erase", erase, method="POST", operation="delete_cardholder"),
)
