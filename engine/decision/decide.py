"""The decision: ordered rules over a command and the state of its card, account and programme.

``authorize`` is pure and never raises. Its inputs are stored with the decision, and a replay must give the
same bytes. The rules run in order of precedence; the first that fails names the reason and ends the
evaluation.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.commands import Authorize
from engine.decision import risk
from engine.decision.amounts import approvable_minor, programme_decides
from engine.decision.inputs import Inputs, cvv2_failures_on, day_of
from engine.decision.programme_rule import programme_rule, stand_in_for
from engine.decision.rules import purchase_rules, refund_rules, verification_rules
from engine.decision.trace_view import step_view
from engine.decline import APPROVED, APPROVED_PARTIALLY, VERIFIED, response_code
from engine.ids import approval_code
from engine.instant import DAY_MS
from engine.limits import CVV2_FAILURES_PER_DAY
from engine.programmes.programme import hold_expiry_days
from engine.programmes.stand_in import StandIn
from engine.programmes.stand_in import response_code as stand_in_response_code
from engine.rules.evaluate import NO_RULES, BoundRule, RuleSet, shadow_matches
from engine.rules.observed import RuleName
from engine.trace import TraceStep


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of an authorization, with its explanation."""

    decision: Literal["approved", "declined"]
    reason: str | None
    response_code: str
    approval_code: str | None
    approved_minor: int
    decided_by: Literal["platform", "programme", "stand_in"]
    risk_score: int
    risk_action: str
    day: str
    """Day label in the programme's time zone to which this decision counts."""
    hold_expires_ms: int | None
    trace: tuple[TraceStep, ...]
    stand_in: StandIn | None = None
    """Set when the decision was made in stand-in."""
    decline_detail: str | None = None
    """The issuer's own reason: that of the authorization rule that declined."""
    matched_rule: RuleName | None = None
    """The authorization rule that declined."""
    shadow_matches: tuple[RuleName, ...] = ()
    """The shadow rules that would have declined, whatever the decision."""


def authorize(command: Authorize, inputs: Inputs, rules: RuleSet = NO_RULES) -> Decision:
    """Decide an authorization, an account verification (amount 0) or a refund.

    ``engine.decline`` lists the reasons in order, with their response codes (ISO 8583 DE39). ``rules`` are
    the authorization rules that ``inputs`` name.
    """
    day = day_of(inputs)
    points = risk.score(command, cvv2_failures_on(inputs, day))
    trace: list[TraceStep] = []
    matched: list[BoundRule] = []
    stand_in: StandIn | None = None
    if command.kind == "refund":
        reason = refund_rules(command, inputs, trace)
    elif command.amount_minor == 0:
        reason = verification_rules(command, inputs, day, trace)
    else:
        reason = purchase_rules(command, inputs, rules, day, points, trace, matched)
        stand_in = stand_in_for(command, inputs) if reason is None else None
    reason = reason or programme_rule(command, inputs, stand_in, trace)
    approved_minor = approvable_minor(command, inputs) if reason is None else 0
    return Decision(
        decision="declined" if reason else "approved",
        reason=reason,
        response_code=_decline_code(reason, stand_in, inputs)
        if reason
        else _approval_response_code(command, approved_minor),
        approval_code=None if reason else approval_code(command.id),
        approved_minor=approved_minor,
        decided_by=_decided_by(command, inputs, reason, stand_in),
        risk_score=points,
        risk_action=risk.action(points),
        day=day,
        hold_expires_ms=_hold_expires_ms(command, inputs) if approved_minor else None,
        trace=tuple(trace),
        stand_in=stand_in,
        decline_detail=matched[0].detail if matched else None,
        matched_rule=matched[0].name if matched else None,
        shadow_matches=_shadow_matches(command, inputs, rules, points) if rules.shadow else (),
    )


def _shadow_matches(command: Authorize, inputs: Inputs, rules: RuleSet, points: int) -> tuple[RuleName, ...]:
    """Rules decide purchases in the card's currency only; see ``engine.decision.rules``."""
    if command.kind == "refund" or not command.amount_minor or command.currency != inputs.card_currency:
        return ()
    return shadow_matches(rules, command, inputs, points)


def must_call_endpoint(command: Authorize, inputs: Inputs, rules: RuleSet = NO_RULES) -> bool:
    """Whether the platform's own rules pass and the programme's endpoint, not called yet, must decide."""
    if inputs.endpoint_result is not None or not programme_decides(command, inputs):
        return False
    day = day_of(inputs)
    points = risk.score(command, cvv2_failures_on(inputs, day))
    return purchase_rules(command, inputs, rules, day, points, [], []) is None


def counts_as_cvv2_failure(inputs: Inputs, decision: Decision) -> bool:
    """Whether a wrong CVV2 or CVV1 was checked. After too many in a day, no further value is checked."""
    checked = cvv2_failures_on(inputs, decision.day) < CVV2_FAILURES_PER_DAY
    return decision.reason in ("cvv2_mismatch", "cvv1_mismatch") and checked


def _decided_by(
    command: Authorize, inputs: Inputs, reason: str | None, stand_in: StandIn | None
) -> Literal["platform", "programme", "stand_in"]:
    """The party that gave the reason of the decline, or approved."""
    if stand_in is not None:
        return "stand_in"
    if inputs.endpoint_result is None or inputs.endpoint_result.decision is None:
        return "platform"
    by_programme = reason in {None, "programme_declined"} and programme_decides(command, inputs)
    return "programme" if by_programme else "platform"


def _decline_code(reason: str, stand_in: StandIn | None, inputs: Inputs) -> str:
    return stand_in_response_code(stand_in.rule) if stand_in else response_code(reason, inputs.network)


def _approval_response_code(command: Authorize, approved_minor: int) -> str:
    if command.amount_minor == 0:
        return VERIFIED
    return APPROVED if approved_minor == command.amount_minor else APPROVED_PARTIALLY


def _hold_expires_ms(command: Authorize, inputs: Inputs) -> int | None:
    """The expiry of an approval's hold. Refunds and approvals in gateway mode have no hold."""
    if command.kind == "refund" or inputs.programme_mode == "gateway":
        return None
    return inputs.now_ms + hold_expiry_days(inputs.hold_expiry_days, command.mcc) * DAY_MS


def decision_view(decision: Decision) -> dict[str, Any]:
    """The members of a decision on a transaction of the API."""
    detail = {} if decision.decline_detail is None else {"decline_detail": decision.decline_detail}
    return {
        "decision": decision.decision,
        "decline_reason": decision.reason,
        **detail,
        "decided_by": decision.decided_by,
        "risk": {"score": decision.risk_score, "action": decision.risk_action},
        "trace": [step_view(step) for step in decision.trace],
    }
