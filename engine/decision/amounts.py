"""The approvable amount: the least of request, terminal's cap, funds and programme's limit."""

from __future__ import annotations

from engine.commands import Authorize
from engine.decision.inputs import Inputs


def programme_decides(command: Authorize, inputs: Inputs) -> bool:
    """Whether the programme makes the final decision: on purchases of delegated programmes, not on refunds
    and account verifications."""
    return inputs.decisioning == "delegated" and command.kind == "purchase" and command.amount_minor > 0


def stands_in(inputs: Inputs) -> bool:
    """Whether the programme gave no usable answer, and its policy allows stand-in for that failure."""
    result = inputs.endpoint_result
    if inputs.decisioning != "delegated" or result is None or result.decision is not None:
        return False
    return result.grant is None or result.grant.rule != "not_triggered"


def stand_in_minor(command: Authorize) -> int:
    """The amount of an approval in stand-in: the request, or the terminal's cap on a partial approval."""
    if command.partial_allowed and command.partial_cap_minor is not None:
        return min(command.amount_minor, command.partial_cap_minor)
    return command.amount_minor


def approvable_minor(command: Authorize, inputs: Inputs) -> int:
    """The amount that the platform's rules allow, limited by the programme's answer; 0 if a smaller approval
    is the only one possible and the terminal does not take it."""
    if stands_in(inputs) and programme_decides(command, inputs):
        return stand_in_minor(command)
    affordable = affordable_minor(command, inputs)
    limit_minor = inputs.endpoint_result.approved_minor if inputs.endpoint_result else None
    if inputs.rules and not programme_decides(command, inputs):
        # The programme left its decisions to the platform after the call.
        limit_minor = None
    if limit_minor is None or affordable <= limit_minor:
        return affordable
    return limit_minor if command.partial_allowed else 0


def affordable_minor(command: Authorize, inputs: Inputs) -> int:
    """The whole request if the funds cover it. For a terminal that takes partial approvals, the least of
    request, cap and funds."""
    requested_minor = command.amount_minor
    if command.kind == "refund" or requested_minor == 0:
        return requested_minor
    ceiling_minor = requested_minor
    if command.partial_allowed and command.partial_cap_minor is not None:
        ceiling_minor = min(ceiling_minor, command.partial_cap_minor)
    if inputs.programme_mode == "gateway":
        return ceiling_minor
    if command.partial_allowed:
        return max(0, min(ceiling_minor, available_minor(inputs)))
    return requested_minor if requested_minor <= available_minor(inputs) else 0


def available_minor(inputs: Inputs) -> int:
    """Funds for this decision; an increment of a lapsed hold must cover the lapsed amount again."""
    if inputs.posted_minor is None:
        return 0
    lapsed_minor = inputs.original.lapsed_minor if inputs.original else 0
    return inputs.posted_minor - inputs.held_minor - lapsed_minor


def authorized_minor(inputs: Inputs) -> int:
    """The total of the authorization that an increment raises, before the increment."""
    return 0 if inputs.original is None else inputs.original.authorized_minor
