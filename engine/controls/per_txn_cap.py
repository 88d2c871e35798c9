"""``per_txn_cap``: the largest single authorization, in the card's currency."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step, verdict


class PerTxnCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_txn_cap"):
    """Passes an amount up to and including the cap."""

    amount_minor: int
    reason: ClassVar[str] = "per_txn_cap_exceeded"

    def check(self, facts: Facts) -> Step:
        passed = facts.amount_minor <= self.amount_minor
        return Step("per_txn_cap", verdict(passed), facts.amount_minor, self.amount_minor)
