"""``per_day_amount_cap``: how much may be approved a day, in the card's currency and the programme's time
zone."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class PerDayAmountCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_day_amount_cap"):
    """Passes while today's approved amount and this one together stay within the cap; the step shows the
    amount before."""

    amount_minor: int
    reason: ClassVar[str] = "per_day_amount_exceeded"

    def check(self, facts: ControlInput) -> TraceStep:
        within = facts.day_amount_minor + facts.amount_minor <= self.amount_minor
        return TraceStep("per_day_amount_cap", verdict(within), facts.day_amount_minor, self.amount_minor)
