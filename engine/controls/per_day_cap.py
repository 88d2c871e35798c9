"""``per_day_cap``: the number of approved purchases in a day of the programme's time zone."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class PerDayCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_day_cap"):
    """Passes while fewer than ``count`` purchases have been approved today. An increment is not a purchase of
    its own."""

    count: int
    reason: ClassVar[str] = "per_day_count_exceeded"
    skips_increments: ClassVar[bool] = True

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.day_count < self.count
        return TraceStep("per_day_cap", verdict(passed), control_input.day_count, self.count)
