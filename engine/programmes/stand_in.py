"""Stand-in: deciding for a programme whose own decision endpoint gives no usable answer (spec 2.10, 8;
contract, section 8).

The rules stand in order of precedence; the first that refuses is the one the activity record names. Amounts
in minor units; no currency is ever converted. Only a programme's owner grants exposure, so the sum of what
was granted never exceeds the budget in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from engine.decline import RESPONSE_CODES

Trigger = Literal["connection_error", "timeout", "invalid_response"]
"""Why no usable answer came."""
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
"""In order. ``not_triggered`` is no stand-in at all; ``budget_unreachable`` is what a card's owner says when
the programme's owner could not be asked in time."""

APPROVING: Final = "within_ceilings"
_RESPONSE_CODES: Final[dict[str, str]] = {
    "max_amount_exceeded": "61",
    "max_total_exposure_exceeded": "61",
    "declared_balance_exceeded": "51",
}


class Triggers(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which failures are stood in for; another one declines as if the programme had."""

    connection_error: bool = True
    timeout: bool = True
    invalid_response: bool = True


class StandInPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be approved for a programme in an outage. ``version`` rises by 1 with each change."""

    mode: PolicyMode = "disabled"
    triggers: Triggers = Triggers()
    max_amount_minor: int | None = None
    """Of one approval, in the budget's currency."""
    max_total_exposure_minor: int | None = None
    """The budget: of all approvals of one outage."""
    budget_currency: str | None = None
    max_count_per_day: int | None = None
    """Kept and shown; it decides nothing (spec 2.10)."""
    mcc_list: tuple[str, ...] = ()
    mcc_list_mode: MccListMode = "deny"
    version: int = 1
    updated_ms: int = 0


class StandInRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One card's owner asks to approve ``amount_minor`` in stand-in. ``id`` is that of the authorization, or
    of the increment."""

    id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    trigger: Trigger
    declared_remaining_minor: int | None = None
    """What is left of the card's declared balance; ``None`` when none was declared."""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The answer to an ``StandInRequest``: the rule that fired, and the budget after it."""

    rule: Rule
    outage_id: str | None = None
    used_minor: int = 0
    limit_minor: int | None = None


class Outage(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outage under way: it began with its first stand-in and ends with the first usable answer.

    A change of the policy's currency begins a new ``period`` inside it, with nothing used.
    """

    id: str
    started_ms: int
    currency: str | None = None
    used_minor: int = 0
    period: int = 1


class StandIn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a decision was made in stand-in; part of the decision."""

    rule: Rule
    trigger: Trigger
    outage_id: str | None
    exposure_minor: int
    used_minor: int
    limit_minor: int | None


def grant(
    policy: StandInPolicy,
    outage: Outage | None,
    asks: Iterable[StandInRequest],
    new_outage_id: str,
    now_ms: int,
) -> tuple[Outage | None, tuple[Grant, ...]]:
    """Answer ``asks`` in their order; returns the outage after them, which they may have begun."""
    grants = []
    used_minor = outage.used_minor if outage else 0
    for ask in asks:
        if not getattr(policy.triggers, ask.trigger):
            grants.append(Grant("not_triggered"))
            continue
        outage = outage or Outage(new_outage_id, now_ms, policy.budget_currency)
        rule = _rule(policy, ask, used_minor)
        if rule == APPROVING:
            used_minor += ask.amount_minor
        grants.append(Grant(rule, outage.id, used_minor, policy.max_total_exposure_minor))
    if outage is not None and used_minor != outage.used_minor:
        outage = msgspec.structs.replace(outage, used_minor=used_minor)
    return outage, tuple(grants)


def _rule(policy: StandInPolicy, ask: StandInRequest, used_minor: int) -> Rule:
    if policy.mode == "disabled":
        return "mode_disabled"
    if policy.mode == "decline_all":
        return "mode_decline_all"
    if policy.max_amount_minor is None:
        return "max_amount_not_set"
    if policy.max_total_exposure_minor is None:
        return "max_total_exposure_not_set"
    if ask.currency != policy.budget_currency:
        return "currency_mismatch"
    if (ask.mcc in policy.mcc_list) != (policy.mcc_list_mode == "allow"):
        return "mcc_not_permitted"
    if ask.declared_remaining_minor is None:
        return "declared_balance_missing"
    if ask.amount_minor > policy.max_amount_minor:
        return "max_amount_exceeded"
    if ask.amount_minor > ask.declared_remaining_minor:
        return "declared_balance_exceeded"
    if used_minor + ask.amount_minor > policy.max_total_exposure_minor:
        return "max_total_exposure_exceeded"
    return APPROVING


def confirmed(rule: Rule, amount_minor: int, declared_remaining_minor: int | None) -> Rule:
    """The rule that counts when the card's owner decides: the declared balance may have changed since it
    asked."""
    if rule != APPROVING:
        return rule
    if declared_remaining_minor is None:
        return "declared_balance_missing"
    return "declared_balance_exceeded" if amount_minor > declared_remaining_minor else rule


def response_code(rule: Rule) -> str:
    """DE39 of a decline: 61 above an amount ceiling, 51 above the declared balance, 05 otherwise."""
    return _RESPONSE_CODES.get(rule, RESPONSE_CODES["stand_in_declined"])


def recurrence(outage: Outage, policy: StandInPolicy) -> Outage:
    """``outage`` under a changed policy: another budget currency begins a new period."""
    if outage.currency == policy.budget_currency:
        return outage
    return msgspec.structs.replace(
        outage, currency=policy.budget_currency, used_minor=0, period=outage.period + 1
    )
