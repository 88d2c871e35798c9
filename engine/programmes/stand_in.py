"""Stand-in: decisions for a programme whose endpoint gives no usable answer (``ops/docs/STAND_IN.md``).

The rules are in order of precedence, and the activity report names the first that refuses. Amounts are in
minor units, and currencies are not converted. Only a programme's owner grants exposure, so the granted total
never exceeds the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from engine.decline import RESPONSE_CODES

Trigger = Literal["connection_error", "timeout", "invalid_response"]
"""The kind of failure of the call to the endpoint."""
PolicyMode = Literal["disabled", "decline_all", "approve_within_limits"]
MccListMode = Literal["allow", "deny"]
Rule = Literal[
    "not_triggered",
    "mode_disabled",
    "mode_decline_all",
    "max_amount_not_set",
    "max_total_exposure_not_set",
    "currency_mismatch",
    "mcc_not_permitted",
    "declared_balance_missing",
    "max_amount_exceeded",
    "declared_balance_exceeded",
    "max_total_exposure_exceeded",
    "budget_unreachable",
    "within_ceilings",
]
"""The rules in order. ``not_triggered``: the policy does not stand in for this failure.
``budget_unreachable``: the programme's owner did not answer the card's owner in time."""

APPROVING: Final = "within_ceilings"
_RESPONSE_CODES: Final[dict[str, str]] = {
    "max_amount_exceeded": "61",
    "max_total_exposure_exceeded": "61",
    "declared_balance_exceeded": "51",
}


class Triggers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failures that start a stand-in; after any other, the authorization is declined as if the programme
    had declined it."""

    connection_error: bool = True
    timeout: bool = True
    invalid_response: bool = True


class StandInPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of approvals in an outage. ``version`` rises by 1 with each change."""

    mode: PolicyMode = "disabled"
    triggers: Triggers = Triggers()
    max_amount_minor: int | None = None
    """The limit of one approval, in the budget's currency."""
    max_total_exposure_minor: int | None = None
    """The budget: the limit of all approvals of one outage."""
    budget_currency: str | None = None
    max_count_per_day: int | None = None
    """Stored and shown only; no rule applies it."""
    mcc_list: tuple[str, ...] = ()
    mcc_list_mode: MccListMode = "deny"
    version: int = 1
    updated_ms: int = 0


class StandInRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request of a card's owner to approve ``amount_minor`` in stand-in. ``id`` is that of the
    authorization or the increment."""

    id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    trigger: Trigger
    declared_remaining_minor: int | None = None
    """The unused part of the card's declared balance; ``None`` when none was declared."""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The answer to a ``StandInRequest``: the deciding rule, and the used budget after it."""

    rule: Rule
    outage_id: str | None = None
    used_minor: int = 0
    limit_minor: int | None = None


class Outage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A current outage. It starts with the first stand-in and ends with the first usable answer.

    A change of the policy's currency starts a new ``period`` with an unused budget.
    """

    id: str
    started_ms: int
    currency: str | None = None
    used_minor: int = 0
    period: int = 1


class StandIn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The stand-in part of a decision."""

    rule: Rule
    trigger: Trigger
    outage_id: str | None
    exposure_minor: int
    used_minor: int
    limit_minor: int | None


def grant(
    policy: StandInPolicy,
    outage: Outage | None,
    requests: Iterable[StandInRequest],
    new_outage_id: str,
    now_ms: int,
) -> tuple[Outage | None, tuple[Grant, ...]]:
    """Answer ``requests`` in order. Returns the outage after them, which they may have started, and the
    grants."""
    grants = []
    used_minor = outage.used_minor if outage else 0
    for request in requests:
        if not getattr(policy.triggers, request.trigger):
            grants.append(Grant("not_triggered"))
            continue
        outage = outage or Outage(new_outage_id, now_ms, policy.budget_currency)
        rule = _rule(policy, request, used_minor)
        if rule == APPROVING:
            used_minor += request.amount_minor
        grants.append(Grant(rule, outage.id, used_minor, policy.max_total_exposure_minor))
    if outage is not None and used_minor != outage.used_minor:
        outage = msgspec.structs.replace(outage, used_minor=used_minor)
    return outage, tuple(grants)


def _rule(policy: StandInPolicy, request: StandInRequest, used_minor: int) -> Rule:
    if policy.mode == "disabled":
        return "mode_disabled"
    if policy.mode == "decline_all":
        return "mode_decline_all"
    if policy.max_amount_minor is None:
        return "max_amount_not_set"
    if policy.max_total_exposure_minor is None:
        return "max_total_exposure_not_set"
    if request.currency != policy.budget_currency:
        return "currency_mismatch"
    if (request.mcc in policy.mcc_list) != (policy.mcc_list_mode == "allow"):
        return "mcc_not_permitted"
    if request.declared_remaining_minor is None:
        return "declared_balance_missing"
    if request.amount_minor > policy.max_amount_minor:
        return "max_amount_exceeded"
    if request.amount_minor > request.declared_remaining_minor:
        return "declared_balance_exceeded"
    if used_minor + request.amount_minor > policy.max_total_exposure_minor:
        return "max_total_exposure_exceeded"
    return APPROVING


def rule_at_decision(rule: Rule, amount_minor: int, declared_remaining_minor: int | None) -> Rule:
    """The rule at the time of the card's decision: the declared balance may have changed since the
    request."""
    if rule != APPROVING:
        return rule
    if declared_remaining_minor is None:
        return "declared_balance_missing"
    return "declared_balance_exceeded" if amount_minor > declared_remaining_minor else rule


def response_code(rule: Rule) -> str:
    """DE39 of a decline: 61 above an amount ceiling, 51 above the declared balance, 05 otherwise."""
    return _RESPONSE_CODES.get(rule, RESPONSE_CODES["stand_in_declined"])


def under_policy(outage: Outage, policy: StandInPolicy) -> Outage:
    """``outage`` under a changed policy: another budget currency starts a new period."""
    if outage.currency == policy.budget_currency:
        return outage
    return msgspec.structs.replace(
        outage, currency=policy.budget_currency, used_minor=0, period=outage.period + 1
    )
