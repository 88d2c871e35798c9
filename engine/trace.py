"""The explanation of a decision: which rules were evaluated, in order, and what each of them saw."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.money import format_minor

Outcome = Literal["pass", "fail", "skip"]

AMOUNT_RULES = frozenset(
    {"amount", "per_txn_cap", "per_day_amount_cap", "funds", "stand_in_budget", "approved_amount"}
)
"""Rules whose observed value and limit are minor units inside and decimal strings on the API."""


class TraceStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule: its outcome, the value it saw before the decision, and the limit it held that against."""

    rule: str
    outcome: Outcome
    observed: str | int | None = None
    limit: str | int | None = None


def verdict(passed: bool) -> Outcome:
    """``pass`` or ``fail``."""
    return "pass" if passed else "fail"


def step_view(step: TraceStep) -> dict[str, Any]:
    """The public representation of a step."""
    amounts = step.rule in AMOUNT_RULES
    return {
        "rule": step.rule,
        "outcome": step.outcome,
        "observed": _shown(step.observed, amounts),
        "limit": _shown(step.limit, amounts),
    }


def _shown(value: str | int | None, as_amount: bool) -> str | None:
    if value is None:
        return None
    return format_minor(value) if as_amount and isinstance(value, int) else str(value)
