"""``per_day_cap``: how many approved purchases a day, in the programme's time zone."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class PerDayCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_day_cap"):
    """Passes while fewer than ``count`` purchases have been approved today."""

    count: int
    reason: ClassVar[str] = "per_day_count_exceeded"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.day_count < self.count
        return TraceStep("per_day_cap", verdict(passed), facts.day_count, self.count)
