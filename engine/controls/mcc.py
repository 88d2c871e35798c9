"""``mcc_allow`` and ``mcc_deny``: the merchant's category code (ISO 18245, ISO 8583 DE18)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class MccAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_allow"):
    """Passes only a category that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.mcc in self.values
        return TraceStep("mcc_allow", verdict(passed), facts.mcc)


class MccDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_deny"):
    """Passes only a category that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.mcc not in self.values
        return TraceStep("mcc_deny", verdict(passed), facts.mcc)
