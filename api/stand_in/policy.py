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
    """The failures of the programme's endpoint on which stand-in decides. Other failures decline the
    authorization as if the programme had declined it."""

    connection_error: bool = True
    """No connection, an untrusted certificate, or a disconnect before the answer was complete."""
    timeout: bool = True
    """No answer within the programme's `decision_timeout_ms`."""
    invalid_response: bool = True
    """An unusable answer: a status other than 200, a body that is too long, or an invalid body."""


class PolicyInput(Input):
    """A complete policy; members that are left out get their defaults."""

    mode: PolicyMode = "disabled"
    triggers: Annotated[TriggersInput, Field(default_factory=TriggersInput)]
    max_amount: Amount | None = None
    """The largest amount that stand-in approves, in the currency of the budget. Without it stand-in declines
    every authorization."""
    max_total_exposure: MoneyInput | None = None
    """The budget: the largest sum that stand-in approves during one outage. Without it stand-in declines
    every authorization. Stand-in also declines authorizations in other currencies."""
    max_count_per_day: Annotated[int, Field(ge=0, le=STAND_IN_COUNT_MAX)] | None = None
    """Stored and shown only; it does not affect decisions."""
    mcc_list: Annotated[MccList, Field(default_factory=list)]
    mcc_list_mode: MccListMode = "deny"
    """Whether only the listed codes are permitted, or all except them."""

    def to_engine(self) -> StandInPolicy:
        """The policy for the programme's owner, which assigns the version and the time."""
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
    """The failures of the programme's endpoint on which stand-in decides."""

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

    Stand-in decides when the programme's own endpoint gives no usable answer. An acknowledged policy applies
    to every later authorization. A change emits `programme.stip_policy.updated` and raises the `version` of
    the programme and of the policy; an identical policy does neither. A change of the budget currency during
    an outage starts it again with an unused budget, so one outage can cost more than one budget.
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
