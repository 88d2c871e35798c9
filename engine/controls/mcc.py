"""``mcc_allow`` and ``mcc_deny``: the merchant category code (ISO 18245, ISO 8583 DE18)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class MccAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_allow"):
    """Passes the listed categories only."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.mcc in self.values
        return TraceStep("mcc_allow", verdict(passed), control_input.mcc)


class MccDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_deny"):
    """Passes every category except the listed ones."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.mcc not in self.values
        return TraceStep("mcc_deny", verdict(passed), control_input.mcc)
