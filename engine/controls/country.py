"""``country_allow`` and ``country_deny``: the merchant's country (ISO 3166-1 alpha-2, from DE43)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step


class CountryAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="country_allow"):
    """Passes only a country that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "pass" if facts.country in self.values else "fail"
        return Step("country_allow", outcome, facts.country)


class CountryDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="country_deny"):
    """Passes only a country that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "country_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "fail" if facts.country in self.values else "pass"
        return Step("country_deny", outcome, facts.country)
