"""``country_allow`` and ``country_deny``: the merchant's country (ISO 3166-1 alpha-2, from DE43)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class CountryAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="country_allow"):
    """Passes the listed countries only."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.country in self.values
        return TraceStep("country_allow", verdict(passed), control_input.country)


class CountryDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="country_deny"):
    """Passes every country except the listed ones."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.country not in self.values
        return TraceStep("country_deny", verdict(passed), control_input.country)
