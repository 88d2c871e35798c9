"""``mcc_allow`` and ``mcc_deny``: the merchant's category code (ISO 18245, ISO 8583 DE18)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step


class MccAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_allow"):
    """Passes only a category that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "pass" if facts.mcc in self.values else "fail"
        return Step("mcc_allow", outcome, facts.mcc)


class MccDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_deny"):
    """Passes only a category that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "fail" if facts.mcc in self.values else "pass"
        return Step("mcc_deny", outcome, facts.mcc)
