"""The platform's own rules, in order of precedence.

Each rule appends its step to the trace and returns the reason of a decline, or ``None`` when it passes. The
first rule that fails ends the evaluation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from engine.commands import Authorize
from engine.controls import Control, ControlInput, kind_of
from engine.decision import risk
from engine.decision.amounts import affordable_minor, authorized_minor, available_minor, stands_in
from engine.decision.inputs import Inputs, cvv2_failures_on
from engine.limits import CVV2_FAILURES_PER_DAY
from engine.rules.evaluate import BoundRule, RuleSet, first_match
from engine.trace import Outcome, TraceStep, verdict

# Steps of nearly every trace, created once.
_CARD_ACTIVE: Final = TraceStep("card_state", "pass", "active", "active")
_CARDHOLDER_ACTIVE: Final = TraceStep("cardholder", "pass")
_PROGRAMME_ACTIVE: Final = TraceStep("programme", "pass", "active", "active")
_EXPIRY_MATCHES: Final = TraceStep("expiry", "pass")
_EXPIRY_DIFFERS: Final = TraceStep("expiry", "fail")
_ADDRESS_PRESENT: Final = TraceStep("address", "skip", "present")
_PIN_REASONS: Final = {"refused": "pin_not_supported", "invalid": "pin_incorrect"}
_NO_CVV2: Final = TraceStep("cvv2", "skip")
_NO_AUTHENTICATION: Final = TraceStep("authentication", "skip")


def purchase_rules(
    command: Authorize,
    inputs: Inputs,
    rules: RuleSet,
    day: str,
    points: int,
    trace: list[TraceStep],
    matched: list[BoundRule],
) -> str | None:
    """The rules for a purchase or an increment; ``points`` is its risk score. The authorization rule that
    declines is added to ``matched``."""
    return (
        verification_rules(command, inputs, day, trace)
        or control_rules(command, inputs, inputs.controls, day, trace)
        or (_authorization_rules(command, inputs, rules, points, trace, matched) if rules.active else None)
        or _risk_rule(points, trace)
        or _funds_rule(command, inputs, trace)
    )


def verification_rules(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    """The rules for an account verification; a purchase must pass them too."""
    return _card_rules(command, inputs, day, trace) or _currency_rule(command, inputs, trace)


def refund_rules(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """The rules for a refund. It is allowed in any card state, and controls do not apply."""
    # Refunds recorded without tags have no step; their replayed trace must equal the stored one.
    reason = (_chip_rule(command, trace) if command.chip_tags else None) or _pin_rule(command, trace)
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
        or _cvv1_rule(command, inputs, day, trace)
        or _pin_rule(command, trace)
        or _authentication_rule(command, trace)
    )


def _presented_card_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """Check the expiry and the chip data in the message; an absent one has no step."""
    if command.expiry == "mismatch":
        trace.append(_EXPIRY_DIFFERS)
        return "expiry_mismatch"
    if command.expiry == "match":
        trace.append(_EXPIRY_MATCHES)
    return _chip_rule(command, trace)


def _chip_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """Show the EMV data by tag. They are declined if their cryptogram is wrong, or if the policy refuses
    those that cannot be verified."""
    if command.chip == "absent":
        return None
    # Commands from before tags were recorded have none.
    observed = " ".join(command.chip_tags) or "present"
    if command.chip == "present":
        trace.append(TraceStep("chip_data", "skip", observed))
        return None
    passed = command.chip == "valid"
    trace.append(TraceStep("chip_data", verdict(passed), observed, "valid"))
    return None if passed else "cryptogram_invalid"


@lru_cache(maxsize=1024)
def _month_label(year: int, month: int) -> str:
    """The month in the form in which a day label begins."""
    return f"{year:04d}-{month:02d}"


def _cvv2_rule(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    """After too many wrong values in a day, decline every message with a CVV2, and every message whose CVV2
    is ``missing``: their only proof is the card's data. An increment continues an approved sale."""
    failures = cvv2_failures_on(inputs, day)
    locked = failures >= CVV2_FAILURES_PER_DAY
    missing = command.cvv2 == "missing" and locked and inputs.original is None
    if command.cvv2 in ("absent", "missing") and not missing:
        trace.append(_NO_CVV2)
        return None
    passed = command.cvv2 == "match" and not locked
    trace.append(TraceStep("cvv2", verdict(passed), failures, CVV2_FAILURES_PER_DAY))
    return None if passed else "cvv2_mismatch"


def _cvv1_rule(command: Authorize, inputs: Inputs, day: str, trace: list[TraceStep]) -> str | None:
    """The value in track 2 shares the day's limit of wrong values with the CVV2. A message without one has no
    step."""
    if command.cvv1 == "absent":
        return None
    failures = cvv2_failures_on(inputs, day)
    passed = command.cvv1 == "match" and failures < CVV2_FAILURES_PER_DAY
    trace.append(TraceStep("cvv1", verdict(passed), failures, CVV2_FAILURES_PER_DAY))
    return None if passed else "cvv1_mismatch"


def _pin_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """Decline a wrong PIN, and one that cannot be verified unless the policy ignores it. A message without a
    PIN block has no step."""
    outcome = command.pin
    if outcome == "absent":
        return None
    reason = _PIN_REASONS.get(outcome)
    verified = outcome in ("valid", "invalid")
    step: Outcome = "fail" if reason else "pass" if verified else "skip"
    trace.append(TraceStep("pin", step, outcome if verified else "present"))
    return reason


def _authentication_rule(command: Authorize, trace: list[TraceStep]) -> str | None:
    """Accept an authentication value that is verified, or well-formed where the programme has no key. The
    billing address is not verified and has a step only if it is present."""
    if command.address == "present":
        trace.append(_ADDRESS_PRESENT)
    if command.authentication == "absent":
        trace.append(_NO_AUTHENTICATION)
        return None
    outcome = command.authentication
    passed = outcome in ("present", "valid")
    limit = "present" if outcome in ("present", "malformed") else "valid"
    trace.append(TraceStep("authentication", verdict(passed), outcome, limit))
    return None if passed else "authentication_failed"


def _currency_rule(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """Precedes every rule about amounts, because amounts of two currencies are never compared."""
    passed = command.currency == inputs.card_currency
    trace.append(TraceStep("currency", verdict(passed), command.currency, inputs.card_currency))
    return None if passed else "currency_not_supported"


def control_rules(
    command: Authorize, inputs: Inputs, controls: tuple[Control, ...], day: str, trace: list[TraceStep]
) -> str | None:
    """The rules of ``controls``: those of ``inputs`` in a decision."""
    if not controls:
        return None
    same_day = day == inputs.day
    control_input = ControlInput(
        command.amount_minor,
        command.mcc,
        command.merchant_country,
        command.channel,
        inputs.day_count if same_day else 0,
        inputs.day_amount_minor if same_day else 0,
        authorized_minor(inputs) if inputs.rules else 0,
    )
    for control in controls:
        if inputs.original is not None and control.skips_increments:
            trace.append(TraceStep(kind_of(control), "skip"))
            continue
        step = control.check(control_input)
        trace.append(step)
        if step.outcome == "fail":
            return control.reason
    return None


def _authorization_rules(
    command: Authorize,
    inputs: Inputs,
    rules: RuleSet,
    points: int,
    trace: list[TraceStep],
    matched: list[BoundRule],
) -> str | None:
    """The issuer's own rules: the first that matches declines."""
    rule = first_match(rules, command, inputs, points, trace)
    if rule is None:
        return None
    matched.append(rule)
    return rule.decline_reason


def _risk_rule(points: int, trace: list[TraceStep]) -> str | None:
    blocked = points >= risk.BLOCK_FROM
    trace.append(TraceStep("risk", verdict(not blocked), points, risk.BLOCK_FROM))
    return "risk_blocked" if blocked else None


def _funds_rule(command: Authorize, inputs: Inputs, trace: list[TraceStep]) -> str | None:
    """Skipped in gateway mode, where the programme keeps the balance, and in stand-in, where the declared
    balance replaces the funds."""
    funded = inputs.posted_minor is not None
    if inputs.programme_mode == "gateway" or (funded and stands_in(inputs)):
        trace.append(TraceStep("funds", "skip"))
        return None
    passed = funded and affordable_minor(command, inputs) > 0
    observed_minor = None if inputs.posted_minor is None else available_minor(inputs)
    trace.append(TraceStep("funds", verdict(passed), observed_minor, command.amount_minor))
    return None if passed else "insufficient_funds"
