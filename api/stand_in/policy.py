"""Stand-in policy: the limits for approvals while a programme's decision endpoint gives no usable answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.responses import Response

from api.http.answers import json_response
from api.http.fields import Amount, Id, Instant, Mcc, MoneyInput, MoneyView, ShownAmount, example
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.operations.call import KeyedCall, PathId, ReadCall
from api.operations.route import new_router
from api.operations.submission import submit
from api.programmes.routes import require_programme
from engine.commands import SetStandInPolicy
from engine.ids import key_of
from engine.limits import MCC_LIST_MAX, STAND_IN_COUNT_MAX
from engine.money import parse_amount
from engine.programmes.programme import policy_view
from engine.programmes.stand_in import MccListMode, PolicyMode, StandInPolicy, Triggers

router = new_router("Stand-in")


def _each_once(mccs: list[str]) -> list[str]:
    return list(dict.fromkeys(mccs))


MccList = Annotated[
    list[Mcc], Field(max_length=MCC_LIST_MAX), AfterValidator(_each_once), example(["7995", "6051"])
]


class TriggersInput(Input):
    """Which failures of the programme's endpoint are stood in for. Another one declines as if the programme
    had."""

    connection_error: bool = True
    """No connection, no trust in its certificate, or hung up before the answer was whole."""
    timeout: bool = True
    """No answer within the programme's `decision_timeout_ms`."""
    invalid_response: bool = True
    """An answer that cannot be used: another status than 200, too long, or not what was asked for."""


class PolicyInput(Input):
    """A whole policy: what is left out has its default afterwards."""

    mode: PolicyMode = "disabled"
    triggers: Annotated[TriggersInput, Field(default_factory=TriggersInput)]
    max_amount: Amount | None = None
    """The most that one stand-in approves, in the currency of the budget. Without it every one declines."""
    max_total_exposure: MoneyInput | None = None
    """The budget: the most that the stand-ins of one outage approve together. Without it every one declines;
    only authorizations in its currency are stood in for."""
    max_count_per_day: Annotated[int, Field(ge=0, le=STAND_IN_COUNT_MAX)] | None = None
    """Kept and shown; it decides nothing."""
    mcc_list: Annotated[MccList, Field(default_factory=list)]
    mcc_list_mode: MccListMode = "deny"
    """Whether the list names all that is permitted, or all that is not."""

    def to_engine(self) -> StandInPolicy:
        """The policy as its owner keeps it; version and time are the owner's to give."""
        budget = self.max_total_exposure
        return StandInPolicy(
            mode=self.mode,
            triggers=Triggers(**self.triggers.model_dump()),
            max_amount_minor=None if self.max_amount is None else parse_amount(self.max_amount),
            max_total_exposure_minor=None if budget is None else budget.minor,
            budget_currency=None if budget is None else budget.currency,
            max_count_per_day=self.max_count_per_day,
            mcc_list=tuple(self.mcc_list),
            mcc_list_mode=self.mcc_list_mode,
        )


class TriggersView(View):
    """Which failures of the programme's endpoint are stood in for."""

    connection_error: bool
    timeout: bool
    invalid_response: bool


class PolicyView(View):
    """A programme's stand-in policy. ``version`` rises by exactly 1 with each change."""

    programme_id: Id
    mode: PolicyMode
    triggers: TriggersView
    max_amount: ShownAmount | None
    max_total_exposure: MoneyView | None
    max_count_per_day: int | None
    mcc_list: list[str]
    mcc_list_mode: MccListMode
    version: int
    updated_at: Instant


@router.get("/v1/programs/{id}/stip-policy", response_model=PolicyView, responses=refusals("not-found"))
async def get_stip_policy(programme_id: PathId, call: ReadCall) -> Response:
    """Get a programme's stand-in policy."""
    return json_response(200, policy_view(await require_programme(call, programme_id)))


@router.put(
    "/v1/programs/{id}/stip-policy",
    response_model=PolicyView,
    responses=refusals("not-found", "invalid-state-transition"),
)
async def set_stip_policy(programme_id: PathId, given: PolicyInput, call: KeyedCall) -> Response:
    """Replace a programme's stand-in policy.

    Stand-in decides when the programme's own endpoint gives no usable answer. What is acknowledged here is
    in force for every authorization that is asked for afterwards. A change emits
    `programme.stip_policy.updated` and raises the programme's `version` and the policy's own; a policy that
    is already there does neither. Under another budget currency an outage that is under way starts again
    with an unused budget, so one outage can cost more than one budget.
    """
    await require_programme(call, programme_id)
    id_ = call.services.new_id()
    command = SetStandInPolicy(
        id=id_,
        command_key=key_of(id_),
        programme_id=programme_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        policy=given.to_engine(),
    )
    return await submit(call, command)
