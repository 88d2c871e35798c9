"""``country_allow`` and ``country_deny``: the merchant's country (ISO 3166-1 alpha-2, from DE43)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class CountryAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="country_allow"):
    """Passes only a country that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.country in self.values
        return TraceStep("country_allow", verdict(passed), facts.country)


class CountryDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="country_deny"):
    """Passes only a country that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.country not in self.values
        return TraceStep("country_deny", verdict(passed), facts.country)
