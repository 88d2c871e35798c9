"""``per_day_amount_cap``: the approved amount in a day of the programme's time zone."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class PerDayAmountCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_day_amount_cap"):
    """Passes while today's approved amount and the requested one together stay within the cap. The step shows
    the amount before the request."""

    amount_minor: int
    reason: ClassVar[str] = "per_day_amount_exceeded"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        within = control_input.day_amount_minor + control_input.amount_minor <= self.amount_minor
        return TraceStep(
            "per_day_amount_cap", verdict(within), control_input.day_amount_minor, self.amount_minor
        )
