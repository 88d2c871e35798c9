"""The last rule of a delegated decision: the programme's answer, or the stand-in for it."""

from __future__ import annotations

from typing import Final

from engine.commands import Authorize
from engine.decision.amounts import approvable_minor, programme_decides, stand_in_minor, stands_in
from engine.decision.inputs import Inputs
from engine.programmes.stand_in import APPROVING, Grant, StandIn, rule_at_decision
from engine.trace import TraceStep, verdict

_APPROVED_FOR_LESS: Final = "approved_for_less"
"""In the trace: the programme approved a smaller amount, and the terminal takes no partial approval."""
_NOT_CALLED: Final = "unasked"
"""In the trace: the programme's endpoint was not called."""


def stand_in_for(command: Authorize, inputs: Inputs) -> StandIn | None:
    """The stand-in for a programme without a usable answer, or ``None``. The exposure that the programme's
    owner granted is checked against the card's present declared balance."""
    result = inputs.endpoint_result
    if result is None or not stands_in(inputs):
        return None
    assert result.trigger is not None, "a call without a usable answer has a trigger"
    grant = result.grant or Grant("budget_unreachable")
    amount_minor = stand_in_minor(command)
    rule = rule_at_decision(grant.rule, amount_minor, inputs.declared_remaining_minor)
    exposure_minor = amount_minor if rule == APPROVING else 0
    return StandIn(rule, result.trigger, grant.outage_id, exposure_minor, grant.used_minor, grant.limit_minor)


def programme_rule(
    command: Authorize, inputs: Inputs, stand_in: StandIn | None, trace: list[TraceStep]
) -> str | None:
    """The reason of a decline by the programme or in stand-in; ``None`` when it approves, or when the
    programme does not decide."""
    if not programme_decides(command, inputs):
        return None
    if stand_in is not None:
        return _stand_in_rule(stand_in, trace)
    result = inputs.endpoint_result
    answer = _NOT_CALLED if result is None else result.decision or str(result.trigger)
    passed = answer == "approved" and approvable_minor(command, inputs) > 0
    if inputs.rules and answer == "approved" and not passed:
        answer = _APPROVED_FOR_LESS
    trace.append(TraceStep("programme_decision", verdict(passed), answer, "approved"))
    if answer == _APPROVED_FOR_LESS and result is not None:
        trace.append(TraceStep("approved_amount", "fail", result.approved_minor, command.amount_minor))
    return None if passed else "programme_declined"


def _stand_in_rule(stand_in: StandIn, trace: list[TraceStep]) -> str | None:
    approved = stand_in.rule == APPROVING
    trace.append(TraceStep("programme_decision", "skip", stand_in.trigger, "approved"))
    trace.append(TraceStep("stand_in", verdict(approved), stand_in.rule, APPROVING))
    trace.append(
        TraceStep("stand_in_budget", verdict(approved), stand_in.used_minor, stand_in.limit_minor)
        if stand_in.outage_id
        else TraceStep("stand_in_budget", "skip")
    )
    return None if approved else "stand_in_declined"
