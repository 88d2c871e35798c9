"""``mcc_allow`` and ``mcc_deny``: the merchant's category code (ISO 18245, ISO 8583 DE18)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step, verdict


class MccAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_allow"):
    """Passes only a category that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: Facts) -> Step:
        passed = facts.mcc in self.values
        return Step("mcc_allow", verdict(passed), facts.mcc)


class MccDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="mcc_deny"):
    """Passes only a category that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "mcc_not_allowed"

    def check(self, facts: Facts) -> Step:
        passed = facts.mcc not in self.values
        return Step("mcc_deny", verdict(passed), facts.mcc)
