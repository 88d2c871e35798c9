"""Programmes: the list, a new one, one with its settings, its outage and its products, and its form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor.names import edited, nested, rows, text, texts
from api.console.editor.pairs import at_rows, given_rows, pairs_of
from api.console.view import PageRoute, View
from engine.instant import zone_names
from engine.kyc.flows import DOCUMENT_TYPES
from engine.limits import (
    DECISION_TIMEOUT_MS_DEFAULT,
    DECISION_TIMEOUT_MS_MAX,
    DECISION_TIMEOUT_MS_MIN,
    HOLD_EXPIRY_DAYS_DEFAULT,
    HOLD_EXPIRY_DAYS_MAX,
    PAGE_LIMIT_MAX,
)

OUTAGES_SHOWN: Final = 5
CHOICES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "currency": (("EUR", "EUR"), ("GBP", "GBP"), ("USD", "USD")),
    "mode": (("managed", "managed: the ledger is here"), ("gateway", "gateway: you keep the ledger")),
    "decisioning": (
        ("platform", "platform: decided here"),
        ("delegated", "delegated: your endpoint decides too"),
    ),
    "kyc_policy": (("", "none"), ("basic", "basic"), ("document", "document"), ("full", "full")),
    "card_renewal": (
        ("off", "off"),
        ("virtual", "virtual cards before they expire"),
        ("all", "all cards before they expire"),
    ),
    "status": (("active", "active"), ("suspended", "suspended"), ("closed", "closed, for ever")),
}
"""Values with their words."""
LIMITS: Final = {
    "timeout": (DECISION_TIMEOUT_MS_MIN, DECISION_TIMEOUT_MS_MAX),
    "expiry": (1, HOLD_EXPIRY_DAYS_MAX),
}
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_TEXTS: Final = ("name", "decisioning", "timezone", "card_renewal")
_NULLABLE: Final = ("decision_url", "kyc_policy", "external_ref")
_NUMBERS: Final = ("decision_timeout_ms", "hold_expiry_days")


async def programmes(_request: Request, view: View) -> Response:
    """The list of programmes."""
    found, pager = await view.paged("/v1/programs")
    return view.html("programmes/list.html", programmes=found["data"], pager=pager)


async def programme(request: Request, view: View) -> Response:
    """One programme."""
    return await shown(request, view)


async def shown(request: Request, view: View, problem: Problem | None = None) -> Response:
    """The page of the programme in the path, with the ``problem`` of an act on it."""
    path = f"/v1/programs/{request.path_params['id']}"
    found = await view.api.require(path)
    outages = await _or_none(view, f"{path}/outages", limit=OUTAGES_SHOWN)
    policy = await _or_none(view, f"{path}/stip-policy")
    return view.html(
        "programmes/programme.html",
        programme=found,
        policy=policy,
        outages=None if outages is None else outages["data"],
        budget=_budget(outages, policy),
        products=await _or_none(view, "/v1/card-products", programme_id=found["id"], limit=PAGE_LIMIT_MAX),
        accounts=await _accounts(view, found["id"]),
        problem=problem,
    )


async def _or_none(view: View, path: str, **query: Any) -> dict[str, Any] | None:
    """The answer, or ``None`` if the caller may not read it."""
    answer = await view.api.get(path, **query)
    return None if isinstance(answer, Problem) else answer


async def _accounts(view: View, programme_id: str) -> list[dict[str, Any]]:
    """The programme's funding source and settlement account."""
    found = [
        await _or_none(view, "/v1/accounts", programme_id=programme_id, kind=kind)
        for kind in ("funding_source", "settlement")
    ]
    return [each for page in found if page for each in page["data"]]


def _budget(outages: dict[str, Any] | None, policy: dict[str, Any] | None) -> dict[str, Any] | None:
    """The used part of the budget in an open outage; ``None`` without one."""
    newest = outages["data"][0] if outages and outages["data"] else None
    if newest is None or newest["ended_at"] is not None:
        return None
    period, limit = newest["budgets"][-1], policy["max_total_exposure"] if policy else None
    shown = {"started_at": newest["started_at"], "used": period["used"], "currency": period["currency"] or ""}
    if limit is None or limit["currency"] != period["currency"] or float(limit["amount"]) == 0:
        return shown | {"limit": None, "share": 0.0}
    share = min(1.0, float(period["used"]) / float(limit["amount"]))
    return shown | {"limit": limit["amount"], "share": share}


async def new_programme(_request: Request, view: View) -> Response:
    """The form of a new programme."""
    form = {
        "currency": "EUR",
        "mode": "managed",
        "decisioning": "platform",
        "decision_timeout_ms": str(DECISION_TIMEOUT_MS_DEFAULT),
        "timezone": view.zone,
        "hold_expiry_days": str(HOLD_EXPIRY_DAYS_DEFAULT),
        "kyc_document_types": list(DOCUMENT_TYPES),
        "card_renewal": "virtual",
    }
    return _form_page(view, form, None)


async def create(_request: Request, view: View) -> Response:
    """Create the programme, or change the form's rows. The next page shows the decision secret, which cannot
    be read again."""
    form = nested(view.form().pairs)
    if edited(form, text(form, "do")):
        return _form_page(view, form, None)
    body = _settings(form) | {name: text(form, name) for name in ("currency", "mode")}
    answer = await view.api.post("/v1/programs", body | {"metadata": pairs_of(form)})
    if isinstance(answer, Problem):
        return _form_page(view, form | {"metadata": given_rows(form)}, None, at_rows(answer, form))
    return view.html("programmes/created.html", status=201, programme=answer)


async def edit(request: Request, view: View) -> Response:
    """The form of an existing programme."""
    found = await view.api.require(f"/v1/programs/{request.path_params['id']}")
    return _form_page(view, _form(found), found)


async def update(request: Request, view: View) -> Response:
    """Save the members that differ."""
    path = f"/v1/programs/{request.path_params['id']}"
    found = await view.api.require(path)
    form = nested(view.form().pairs)
    given = _settings(form) | {"status": text(form, "status")}
    changes = {name: value for name, value in given.items() if value != found[name]}
    if not changes:
        return view.redirect(f"/programmes/{found['id']}", notice="The programme has not changed.")
    answer = await view.api.patch(path, changes)
    if isinstance(answer, Problem):
        return _form_page(view, form, found, answer)
    return view.redirect(f"/programmes/{found['id']}", notice="The programme is changed.")


def _form(programme: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a programme of the API."""
    fields = (*_TEXTS, *_NULLABLE, *_NUMBERS, "status")
    given = {name: "" if programme[name] is None else str(programme[name]) for name in fields}
    return given | {"kyc_document_types": programme["kyc_document_types"]}


def _settings(form: Mapping[str, Any]) -> dict[str, Any]:
    """The API's members of the fields."""
    return {
        **{name: text(form, name) for name in _TEXTS},
        **{name: text(form, name) or None for name in _NULLABLE},
        **{name: whole(text(form, name)) for name in _NUMBERS},
        "kyc_document_types": [each for each in DOCUMENT_TYPES if each in texts(form, "kyc_document_types")],
    }


def whole(given: str) -> int | str:
    """The number of a field; another text stays a text, which the API refuses."""
    return int(given) if _WHOLE.fullmatch(given) else given


def _form_page(
    view: View, form: dict[str, Any], programme: dict[str, Any] | None, problem: Problem | None = None
) -> Response:
    names = (*_TEXTS, *_NULLABLE, *_NUMBERS, "currency", "mode", "status")
    fields = dict.fromkeys(names, "") | {"kyc_document_types": []} | form
    fields["metadata"] = rows(form.get("metadata"))
    return view.form_page(
        "programmes/form.html",
        fields,
        problem,
        programme=programme,
        choices=CHOICES,
        limits=LIMITS,
        zones=sorted(zone_names()),
        document_types=DOCUMENT_TYPES,
    )


PAGES: Final = (
    PageRoute("/programmes", programmes, operation="list_programs", label="Programmes", group="Programmes"),
    PageRoute("/programmes/new", new_programme, operation="create_program"),
    PageRoute("/programmes/new", create, "POST", operation="create_program"),
    PageRoute("/programmes/{id}", programme, operation="get_program"),
    PageRoute("/programmes/{id}/edit", edit, operation="update_program"),
    PageRoute("/programmes/{id}/edit", update, "POST", operation="update_program"),
)
