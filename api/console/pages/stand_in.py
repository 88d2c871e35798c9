"""Stand-in of a programme: its policy, its outages, and the decisions made in stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.editor.names import group, nested, text, texts
from api.console.pages.programmes import whole
from api.console.view import PageRoute, View
from engine.instant import DAY_MS, to_text
from engine.programmes.stand_in import MccListMode, Trigger

MODES: Final = (
    ("disabled", "disabled: decline, as if there were no stand-in"),
    ("decline_all", "decline all"),
    ("approve_within_limits", "approve within the limits"),
)
TRIGGERS: Final = get_args(Trigger)
MCC_MODES: Final = (("deny", "not permitted"), ("allow", "permitted, and no others"))
CURRENCIES: Final = ("EUR", "GBP", "USD")
LENGTHS: Final = (1, 7, 30, 90)
"""Days of the list of decisions."""
OUTAGES_SHOWN: Final = 10

assert {name for name, _ in MCC_MODES} == set(get_args(MccListMode))


async def stand_in(request: Request, view: View) -> Response:
    """The decisions made in stand-in, newest first, and the newest outages."""
    path = f"/v1/programs/{request.path_params['id']}"
    programme = await view.api.require(path)
    days = next((each for each in LENGTHS if str(each) == request.query_params.get("days")), LENGTHS[1])
    now_ms = view.services.clock.now_ms()
    # Whole minutes: the pages of one list have the same window for a while.
    end_ms = now_ms - now_ms % 60_000 + 60_000
    window = {"from": to_text(end_ms - days * DAY_MS), "to": to_text(end_ms)}
    found, pager = await view.paged(f"{path}/stip-activity", **window)
    outages = await view.api.require(f"{path}/outages", limit=OUTAGES_SHOWN)
    return view.html(
        "programmes/stand_in.html",
        programme=programme,
        decisions=found["data"],
        pager=pager,
        outages=outages,
        days=days,
        lengths=LENGTHS,
    )


async def policy(request: Request, view: View) -> Response:
    """The form of the policy."""
    path = f"/v1/programs/{request.path_params['id']}"
    programme = await view.api.require(path)
    found = await view.api.require(f"{path}/stip-policy")
    return _form_page(view, programme, _form(found, programme))


async def set_policy(request: Request, view: View) -> Response:
    """Replace the policy."""
    path = f"/v1/programs/{request.path_params['id']}"
    programme = await view.api.require(path)
    form = nested(view.form().pairs)
    answer = await view.api.put(f"{path}/stip-policy", _policy(form))
    if isinstance(answer, Problem):
        return _form_page(view, programme, form, answer)
    return view.redirect(f"/programmes/{programme['id']}", notice="The stand-in policy is in force.")


def _form(policy: Mapping[str, Any], programme: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy of the API."""
    budget = policy["max_total_exposure"] or {"amount": "", "currency": programme["currency"]}
    count = policy["max_count_per_day"]
    return {
        "mode": policy["mode"],
        "triggers": [name for name, chosen in policy["triggers"].items() if chosen],
        "max_amount": policy["max_amount"] or "",
        "max_total_exposure": budget,
        "max_count_per_day": "" if count is None else str(count),
        "mcc_list": ", ".join(policy["mcc_list"]),
        "mcc_list_mode": policy["mcc_list_mode"],
    }


def _policy(form: Mapping[str, Any]) -> dict[str, Any]:
    """The API's policy of the fields."""
    budget = group(form, "max_total_exposure")
    amount, count = text(budget, "amount"), text(form, "max_count_per_day")
    return {
        "mode": text(form, "mode"),
        "triggers": {name: name in texts(form, "triggers") for name in TRIGGERS},
        "max_amount": text(form, "max_amount") or None,
        "max_total_exposure": {"amount": amount, "currency": text(budget, "currency")} if amount else None,
        "max_count_per_day": whole(count) if count else None,
        "mcc_list": text(form, "mcc_list").replace(",", " ").split(),
        "mcc_list_mode": text(form, "mcc_list_mode"),
    }


def _form_page(
    view: View, programme: dict[str, Any], form: dict[str, Any], problem: Problem | None = None
) -> Response:
    names = ("mode", "max_amount", "max_count_per_day", "mcc_list", "mcc_list_mode")
    fields = dict.fromkeys(names, "") | {"triggers": []} | form
    fields["max_total_exposure"] = {"amount": "", "currency": ""} | group(form, "max_total_exposure")
    return view.form_page(
        "programmes/policy.html",
        fields,
        problem,
        programme=programme,
        modes=MODES,
        triggers=TRIGGERS,
        mcc_modes=MCC_MODES,
        currencies=CURRENCIES,
    )


PAGES: Final = (
    PageRoute("/programmes/{id}/stand-in", stand_in, operation="list_stip_activity"),
    PageRoute("/programmes/{id}/stand-in-policy", policy, operation="set_stip_policy"),
    PageRoute("/programmes/{id}/stand-in-policy", set_policy, "POST", operation="set_stip_policy"),
)
