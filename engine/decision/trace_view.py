"""The public representation of a decision's trace."""

from __future__ import annotations

from typing import Any, Final

from engine.controls import AMOUNT_KINDS
from engine.money import format_minor
from engine.trace import TraceStep

AMOUNT_RULES: Final = AMOUNT_KINDS | {"amount", "funds", "stand_in_budget", "approved_amount"}
"""Rules with amounts: minor units in the trace, decimal strings on the API."""


def step_view(step: TraceStep) -> dict[str, Any]:
    """The public representation of a step."""
    amounts = step.rule in AMOUNT_RULES
    return {
        "rule": step.rule,
        "outcome": step.outcome,
        "observed": _public(step.observed, amounts),
        "limit": _public(step.limit, amounts),
    }


def _public(value: str | int | None, as_amount: bool) -> str | None:
    if value is None:
        return None
    return format_minor(value) if as_amount and isinstance(value, int) else str(value)
