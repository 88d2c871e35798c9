"""The decision: ordered rules over a command and the state it meets.

``authorize`` is total and pure. What it saw is stored beside what it decided, so anyone can run it again
and compare the bytes. The rules stand in order of precedence; the first that fails names the reason, and
nothing after it is evaluated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from engine.cards.authorization import OriginalView
from engine.commands import Authorize
from engine.controls import Control, ControlInput, PerDayCap
from engine.decision import risk
from engine.decision.delegation import Consulted
from engine.decline import APPROVED, APPROVED_PARTIALLY, VERIFIED, response_code
from engine.ids import approval_code
from engine.instant import DAY_MS, day_label
from engine.limits import CVV2_FAILURES_PER_DAY
from engine.programmes import stand_in
from engine.programmes.programme import hold_expiry_days
from engine.programmes.stand_in import StandIn
from engine.trace import TraceStep, step_view, verdict

INPUTS_LAYOUT: Final = 2
"""Number of the layout in which inputs are stored; ``engine.decision.recorded`` says when it rises."""


class Inputs(msgspec.Struct, frozen=True, array_like=True, tag=INPUTS_LAYOUT, gc=False):
    """All that a decision may look at besides the command, as the owner held it at that moment. Amounts in
    minor units. Stored by position: see ``engine.decision.recorded`` before changing a field."""

    now_ms: int
    card_seq: int
    card_state: str
    cardholder_active: bool
    network: str
    card_currency: str
    exp_year: int
    exp_month: int
    controls: tuple[Control, ...]
    day: str
    """The day the counters belong to; it never goes backwards."""
    day_count: int
    day_amount_minor: int
    cvv2_failures: int
    programme_version: int
    programme_status: str
    programme_mode: str
    timezone: str
    hold_expiry_days: int
    account_version: int = 0
    posted_minor: int | None = None
    """``None`` when the card is unfunded."""
    held_minor: int = 0
    lapsed_holds: tuple[str, ...] = ()
    """Holds of the account that were found expired and closed just before this decision."""
    original: OriginalView | None = None
    """The authorization that an increment raises; ``None`` for everything else."""
    decisioning: str = "platform"
    """Whether the programme decides itself (``delegated``) once the platform's own rules have passed."""
    consulted: Consulted | None = None
    """What came of asking the programme; ``None`` as long as nobody has."""
    declared_remaining_minor: int | None = None
    """What is left of the card's declared balance; ``None`` when none was declared."""
    rules: int = 0
    """The version of the rules that decide (``RULES``); inputs stored without it are of version 0."""
    buried: bool = False
    """Whether a reversal came before this message. It does not change the decision, only what follows."""


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was decided, why, and what follows from it."""

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


RULES: Final = 1
"""Version of these rules. Under version 0 ``per_txn_cap`` judged an increment by itself, the answer of a
programme limited a decision that had become the platform's own meanwhile, and the trace did not show why a
smaller approval was refused."""

APPROVED_FOR_LESS: Final = "approved_for_less"
"""What the trace shows of a programme's answer that approves a part, where the terminal takes no part."""
UNASKED = "unasked"
"""What the trace shows in place of the programme's answer while nobody has asked for it."""

# Steps that nearly every trace has, made once.
_CARD_ACTIVE: Final = TraceStep("card_state", "pass", "active", "active")
_CARDHOLDER_ACTIVE: Final = TraceStep("cardholder", "pass")
_PROGRAMME_ACTIVE: Final = TraceStep("programme", "pass", "active", "active")
_EXPIRY_MATCHES: Final = TraceStep("expiry", "pass")
_EXPIRY_DIFFERS: Final = TraceStep("expiry", "fail")
_CHIP_DATA_PRESENT: Final = TraceStep("chip_data", "skip", "present")
_NO_CVV2: Final = TraceStep("cvv2", "skip")
_NO_AUTHENTICATION: Final = TraceStep("authentication", "skip")


def authorize(command: Authorize, inputs: Inputs) -> Decision:
    """Decide an authorization, an account verification (amount 0) or a refund.

    Rules and reasons: contract section 7; response codes: ISO 8583 DE39.
    """
    day = _day(inputs)
    points = risk.score(command, _cvv2_failures(inputs, day))
    trace: list[TraceStep] = []
    stood_in: StandIn | None = None
    if command.kind == "refund":
        reason = _refund_rules(command, inputs, trace)
    elif command.amount_minor == 0:
        reason = _card_rules(command, inputs, day, trace) or _currency_rule(command, inputs, trace)
    else:
        reason = _purchase_rules(command, inputs, day, points, trace)
        stood_in = _stand_in(command, inputs) if reason is None and _stands_in(inputs) else None
    reason = reason or _delegated_rule(command, inputs, stood_in, trace)
    approved_minor = _approved_minor(command, inputs) if reason is None else 0
    return Decision(
        decision="declined" if reason else "approved",
        reason=reason,
        response_code=_response_code(reason, stood_in, inputs)
        if reason
        else _approval(command, approved_minor),
        approval_code=None if reason else approval_code(command.id),
        approved_minor=approved_minor,
        decided_by=_decider(command, inputs, reason, stood_in),
        risk_score=points,
        risk_action=risk.action(points),
        day=day,
        hold_expires_ms=_hold_expiry(command, inputs) if approved_minor else None,
        trace=tuple(trace),
        stand_in=stood_in,
    )


def _day(inputs: Inputs) -> str:
    """The day label that a decision counts to."""
    return max(inputs.day, day_label(inputs.now_ms, inputs.timezone))


def delegates(command: Authorize, inputs: Inputs) -> bool:
    """Whether the last word is the programme's: not on refunds and account verifications."""
    return inputs.decisioning == "delegated" and command.kind == "purchase" and command.amount_minor > 0


def wants_answer(command: Authorize, inputs: Inputs) -> bool:
    """Whether everything of the platform's own passes, so that the programme is to be asked now."""
    if inputs.consulted is not None or not delegates(command, inputs):
        return False
    day = _day(inputs)
    points = risk.score(command, _cvv2_failures(inputs, day))
    return _purchase_rules(command, inputs, day, points, []) is None


def _stands_in(inputs: Inputs) -> bool:
    """Whether the programme was asked in vain, and its policy stands in for that failure."""
    consulted = inputs.consulted
    if inputs.decisioning != "delegated" or consulted is None or consulted.decision is not None:
        return False
    return consulted.grant is None or consulted.grant.rule != "not_triggered"


def _stand_in(command: Authorize, inputs: Inputs) -> StandIn:
    """The stand-in as it is decided: what the programme's owner granted, against the card as it is now."""
    consulted = inputs.consulted
    assert consulted is not None, "asked in vain"
    assert consulted.trigger is not None, "asked in vain"
    granted = consulted.grant or stand_in.Grant("budget_unreachable")
    amount_minor = stand_in_minor(command)
    rule = stand_in.confirmed(granted.rule, amount_minor, inputs.declared_remaining_minor)
    exposure_minor = amount_minor if rule == stand_in.APPROVING else 0
    return StandIn(
        rule,
        consulted.trigger,
        granted.outage_id,
        exposure_minor,
        granted.used_minor,
        granted.limit_minor,
    )


def stand_in_minor(command: Authorize) -> int:
    """What a stand-in approves: the request, or the terminal's own cap on a partial approval."""
    if command.partial_allowed and command.partial_cap_minor is not None:
        return min(command.amount_minor, command.partial_cap_minor)
    return command.amount_minor


def _delegated_rule(
    command: Authorize, inputs: Inputs, stood_in: StandIn | None, trace: list[TraceStep]
) -> str | None:
    """The programme's own decision, or the stand-in for it."""
    if not delegates(command, inputs):
        return None
    if stood_in is not None:
        approved = stood_in.rule == stand_in.APPROVING
        trace.append(TraceStep("programme_decision", "skip", stood_in.trigger, "approved"))
        trace.append(TraceStep("stand_in", verdict(approved), stood_in.rule, stand_in.APPROVING))
        trace.append(
            TraceStep("stand_in_budget", verdict(approved), stood_in.used_minor, stood_in.limit_minor)
            if stood_in.outage_id
            else TraceStep("stand_in_budget", "skip")
        )
        return None if approved else "stand_in_declined"
    consulted = inputs.consulted
    said = UNASKED if consulted is None else consulted.decision or str(consulted.trigger)
    passed = said == "approved" and _approved_minor(command, inputs) > 0
    if inputs.rules and said == "approved" and not passed:
        # Approved for less, and the terminal does not take a part.
        said = APPROVED_FOR_LESS
    trace.append(TraceStep("programme_decision", verdict(passed), said, "approved"))
    if said == APPROVED_FOR_LESS and consulted is not None:
        trace.append(TraceStep("approved_amount", "fail", consulted.approved_minor, command.amount_minor))
    return None if passed else "programme_declined"


def _decider(
    command: Authorize, inputs: Inputs, reason: str | None, stood_in: StandIn | None
) -> Literal["platform", "programme", "stand_in"]:
    """Who had the last word: whoever gave the reason, or approved."""
    if stood_in is not None:
        return "stand_in"
    if inputs.consulted is None or inputs.consulted.decision is None:
        return "platform"
    spoke = reason in {None, "programme_declined"} and delegates(command, inputs)
    return "programme" if spoke else "platform"


def _response_code(reason: str, stood_in: StandIn | None, inputs: Inputs) -> str:
    return stand_in.response_code(stood_in.rule) if stood_in else response_code(reason, inputs.network)


def _purchase_rules(
    command: Authorize, inputs: Inputs, day: str, points: int, trace: list[TraceStep]
) -> str | None:
    return (
        _card_rules(command, inputs, day, trace)
        or _currency_rule(command, inputs, trace)
        or _control_rules(command, inputs, day, trace)
        or _risk_rule(points, trace)
        or _funds_rule(command, inputs, trace)
    )


def _refund_rules(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """A refund gives money back: it is allowed in any card state and meets no control."""
    reason = _pin_rule(command, trace)
    if reason:
        return reason
    trace.append(TraceStep("amount", verdict(command.amount_minor > 0), command.amount_minor, 1))
    if command.amount_minor <= 0:
        return "invalid_amount"
    reason = _currency_rule(command, inputs, trace)
    if reason:
        return reason
    if inputs.programme_mode == "gateway":
        trace.append(TraceStep("funds", "skip"))
        return None
    funded = inputs.posted_minor is not None
    trace.append(TraceStep("funds", verdict(funded), inputs.posted_minor))
    return None if funded else "insufficient_funds"


def _card_rules(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    state = inputs.card_state
    if state != "active":
        trace.append(TraceStep("card_state", "fail", state, "active"))
        return f"card_{state}"
    trace.append(_CARD_ACTIVE)
    # Valid through the last day of the expiry month, in the programme's time zone.
    expiry = _month_label(inputs.exp_year, inputs.exp_month)
    expired = day[: len(expiry)] > expiry
    trace.append(TraceStep("card_expiry", verdict(not expired), day, expiry))
    if expired:
        return "card_expired"
    reason = _presented_card_rule(command, trace)
    if reason:
        return reason
    if not inputs.cardholder_active:
        trace.append(TraceStep("cardholder", "fail"))
        return "cardholder_blocked"
    trace.append(_CARDHOLDER_ACTIVE)
    status = inputs.programme_status
    if status != "active":
        trace.append(TraceStep("programme", "fail", status, "active"))
        return "programme_inactive"
    trace.append(_PROGRAMME_ACTIVE)
    return (
        _cvv2_rule(command, inputs, day, trace)
        or _pin_rule(command, trace)
        or _authentication_rule(command, trace)
    )


def _presented_card_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """The expiry and the chip data that the message presents; neither has a step when it is absent."""
    if command.expiry == "mismatch":
        trace.append(_EXPIRY_DIFFERS)
        return "expiry_mismatch"
    if command.expiry == "match":
        trace.append(_EXPIRY_MATCHES)
    if command.chip == "present":
        trace.append(_CHIP_DATA_PRESENT)
    return None


@lru_cache(maxsize=1024)
def _month_label(year: int, month: int) -> str:
    """As the beginning of a day label."""
    return f"{year:04d}-{month:02d}"


def _cvv2_rule(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    """After too many wrong values in a day, no message is approved that proves itself by the card's data
    alone: not with a CVV2, and not without one where one is ``missing``. An increment continues what was
    approved already."""
    failures = _cvv2_failures(inputs, day)
    locked = failures >= CVV2_FAILURES_PER_DAY
    missing = command.cvv2 == "missing" and locked and inputs.original is None
    if command.cvv2 in ("absent", "missing") and not missing:
        trace.append(_NO_CVV2)
        return None
    passed = command.cvv2 == "match" and not locked
    trace.append(TraceStep("cvv2", verdict(passed), failures, CVV2_FAILURES_PER_DAY))
    return None if passed else "cvv2_mismatch"


def _cvv2_failures(inputs: Inputs, day: str) -> int:
    return inputs.cvv2_failures if day == inputs.day else 0


def counts_as_cvv2_failure(inputs: Inputs, decision: Decision) -> bool:
    """Whether a wrong CVV2 was looked at; once there were too many in a day, none is."""
    looked = _cvv2_failures(inputs, decision.day) < CVV2_FAILURES_PER_DAY
    return decision.reason == "cvv2_mismatch" and looked


def _pin_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """A PIN block that cannot be verified is refused unless the profile ignores it; without one there is no
    step."""
    if command.pin == "absent":
        return None
    refused = command.pin == "refused"
    trace.append(TraceStep("pin", "fail" if refused else "skip", "present"))
    return "pin_not_supported" if refused else None


def _authentication_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    if command.authentication == "absent":
        trace.append(_NO_AUTHENTICATION)
        return None
    outcome = command.authentication
    passed = outcome in ("present", "valid")
    # Older records have ``valid`` and ``invalid``; their trace must come out as it was stored.
    limit = "present" if outcome in ("present", "malformed") else "valid"
    trace.append(TraceStep("authentication", verdict(passed), outcome, limit))
    return None if passed else "authentication_failed"


def _currency_rule(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """Numbers of different currencies are never compared, so this comes before every amount."""
    passed = command.currency == inputs.card_currency
    trace.append(TraceStep("currency", verdict(passed), command.currency, inputs.card_currency))
    return None if passed else "currency_not_supported"


def _control_rules(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    if not inputs.controls:
        return None
    same_day = day == inputs.day
    facts = ControlInput(
        command.amount_minor,
        command.mcc,
        command.merchant_country,
        command.channel,
        inputs.day_count if same_day else 0,
        inputs.day_amount_minor if same_day else 0,
        _authorized_minor(inputs) if inputs.rules else 0,
    )
    for control in inputs.controls:
        if inputs.original is not None and isinstance(control, PerDayCap):
            # An increment adds to the amount of the day, not to its count.
            trace.append(TraceStep("per_day_cap", "skip"))
            continue
        step = control.check(facts)
        trace.append(step)
        if step.outcome == "fail":
            return control.reason
    return None


def _authorized_minor(inputs: Inputs) -> int:
    """What the authorization that an increment raises amounts to before it: held, to be held again or still
    to come, and cleared."""
    original = inputs.original
    if original is None:
        return 0
    if original.lapsed_minor:
        return original.cleared_minor + original.lapsed_minor
    return max(original.cleared_minor, original.approved_minor - original.reversed_minor)


def _risk_rule(points: int, trace: list[TraceStep]) -> str | None:
    blocked = points >= risk.BLOCK_FROM
    trace.append(TraceStep("risk", verdict(not blocked), points, risk.BLOCK_FROM))
    return "risk_blocked" if blocked else None


def _funds_rule(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """In gateway mode the programme keeps the balance, so there is nothing here to check; in stand-in the
    declared balance takes this rule's place."""
    funded = inputs.posted_minor is not None
    if inputs.programme_mode == "gateway" or (funded and _stands_in(inputs)):
        trace.append(TraceStep("funds", "skip"))
        return None
    passed = funded and _affordable_minor(command, inputs) > 0
    observed_minor = None if inputs.posted_minor is None else _available_minor(inputs)
    trace.append(TraceStep("funds", verdict(passed), observed_minor, command.amount_minor))
    return None if passed else "insufficient_funds"


def _available_minor(inputs: Inputs) -> int:
    """What this decision may spend; an increment of a lapsed hold has to cover that again first (wire case
    19)."""
    if inputs.posted_minor is None:
        return 0
    lapsed_minor = inputs.original.lapsed_minor if inputs.original else 0
    return inputs.posted_minor - inputs.held_minor - lapsed_minor


def _approved_minor(command: Authorize, inputs: Inputs) -> int:
    """What can be approved: what the platform's rules allow, and no more than the programme does."""
    if _stands_in(inputs) and delegates(command, inputs):
        return stand_in_minor(command)
    affordable_minor = _affordable_minor(command, inputs)
    limit_minor = inputs.consulted.approved_minor if inputs.consulted else None
    if inputs.rules and not delegates(command, inputs):
        # Asked, and meanwhile the programme has left its decisions to the platform.
        limit_minor = None
    if limit_minor is None or affordable_minor <= limit_minor:
        return affordable_minor
    return limit_minor if command.partial_allowed else 0


def _affordable_minor(command: Authorize, inputs: Inputs) -> int:
    """All of it, or, where the terminal takes part of it, the least of request, cap and funds."""
    requested_minor = command.amount_minor
    if command.kind == "refund" or requested_minor == 0:
        return requested_minor
    ceiling_minor = requested_minor
    if command.partial_allowed and command.partial_cap_minor is not None:
        ceiling_minor = min(ceiling_minor, command.partial_cap_minor)
    if inputs.programme_mode == "gateway":
        return ceiling_minor
    if command.partial_allowed:
        return max(0, min(ceiling_minor, _available_minor(inputs)))
    return requested_minor if requested_minor <= _available_minor(inputs) else 0


def _approval(command: Authorize, approved_minor: int) -> str:
    if command.amount_minor == 0:
        return VERIFIED
    return APPROVED if approved_minor == command.amount_minor else APPROVED_PARTIALLY


def _hold_expiry(command: Authorize, inputs: Inputs) -> int | None:
    """When the hold of an approval lapses; refunds have none, and in gateway mode nothing is held."""
    if command.kind == "refund" or inputs.programme_mode == "gateway":
        return None
    return inputs.now_ms + hold_expiry_days(inputs.hold_expiry_days, command.mcc) * DAY_MS


def decision_view(decision: Decision) -> dict[str, Any]:
    """The parts of a decision that the API shows on a transaction (contract, sections 5 and 7)."""
    return {
        "decision": decision.decision,
        "decline_reason": decision.reason,
        "decided_by": decision.decided_by,
        "risk": {"score": decision.risk_score, "action": decision.risk_action},
        "trace": [step_view(step) for step in decision.trace],
    }
