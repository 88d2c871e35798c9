"""Dry runs: the decision on an authorization as it would be made now, and the headroom, for the API."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.commands import Authorize
from engine.currencies import format_money
from engine.decision.amounts import affordable_minor
from engine.decision.decide import Decision, authorize, decision_view, must_call_endpoint
from engine.decision.headroom import Binding, Headroom, Limit
from engine.decision.inputs import Inputs
from engine.instant import to_text
from engine.rules.evaluate import NO_RULES, RuleSet
from engine.trace import TraceStep

_DELEGATED: Final = TraceStep("programme_decision", "skip", "unasked", "approved")


class DryRun(msgspec.Struct, frozen=True, gc=False):
    """A decision that was not made. ``delegated``: the platform's own rules pass, and the programme's
    endpoint, which is not called, would decide."""

    decision: Decision
    delegated: bool = False


def dry_run(command: Authorize, inputs: Inputs, rules: RuleSet = NO_RULES) -> DryRun:
    """Decide ``command``; the largest amount that a delegated programme can approve is the approved one."""
    decision = authorize(command, inputs, rules)
    if not must_call_endpoint(command, inputs, rules):
        return DryRun(decision)
    undecided = msgspec.structs.replace(
        decision,
        reason=None,
        approved_minor=affordable_minor(command, inputs),
        decided_by="programme",
        trace=(*decision.trace[:-1], _DELEGATED),
    )
    return DryRun(undecided, delegated=True)


def dry_run_view(card_id: str, inputs: Inputs, run: DryRun) -> dict[str, Any]:
    """The public representation of a dry run."""
    decision = run.decision
    approved = {
        "amount": format_money(decision.approved_minor, inputs.card_currency),
        "currency": inputs.card_currency,
    }
    return {
        "card_id": card_id,
        **decision_view(decision),
        "decision": "delegated" if run.delegated else decision.decision,
        "decline_detail": decision.decline_detail,
        "approved_amount": approved if decision.reason is None else None,
        "response_code": None if run.delegated else decision.response_code,
        "as_of": as_of_view(inputs),
    }


def headroom_view(card_id: str, inputs: Inputs, found: Headroom) -> dict[str, Any]:
    """The public representation of a headroom."""
    binding, currency = found.binding, inputs.card_currency
    return {
        "card_id": card_id,
        "max_amount": format_money(found.max_minor, currency),
        "currency": currency,
        "decided_by": "programme" if inputs.decisioning == "delegated" else "platform",
        "decline_reason": None if found.max_minor or binding is None else binding.reason,
        "binding": None if binding is None else _binding_view(binding, currency),
        "limits": [_limit_view(limit, currency) for limit in found.limits],
        "as_of": as_of_view(inputs),
    }


def as_of_view(inputs: Inputs) -> dict[str, Any]:
    """The versions of the state that was read."""
    return {
        "card_seq": inputs.card_seq,
        "programme_version": inputs.programme_version,
        "at": to_text(inputs.now_ms),
    }


def _binding_view(binding: Binding, currency: str) -> dict[str, Any]:
    return {
        "rule": binding.rule,
        "decline_reason": binding.reason,
        "decline_detail": binding.detail,
        "unit": binding.unit,
        "limit": _public(binding.limit, currency, binding.unit == "amount"),
        "used": _public(binding.used, currency, binding.unit == "amount"),
    }


def _limit_view(limit: Limit, currency: str) -> dict[str, Any]:
    amounts = limit.unit == "amount"
    return {
        "rule": limit.rule,
        "unit": limit.unit,
        "limit": _public(limit.limit, currency, amounts),
        "used": _public(limit.used, currency, amounts),
        "remaining": _public(limit.remaining, currency, amounts),
        "resets_at": None if limit.resets_ms is None else to_text(limit.resets_ms),
    }


def _public(value: str | int | None, currency: str, as_amount: bool) -> str | None:
    if value is None:
        return None
    return format_money(value, currency) if as_amount and isinstance(value, int) else str(value)
