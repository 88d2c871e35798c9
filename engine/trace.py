"""The explanation of a decision: the evaluated rules in order, with the observed values and limits."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["pass", "fail", "skip"]


class TraceStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule: its outcome, the observed value before the decision, and the limit."""

    rule: str
    outcome: Outcome
    observed: str | int | None = None
    limit: str | int | None = None


def verdict(passed: bool) -> Outcome:
    """``pass`` or ``fail``."""
    return "pass" if passed else "fail"
