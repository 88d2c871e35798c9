"""``per_txn_cap``: the largest single authorization, in the card's currency."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step


class PerTxnCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_txn_cap"):
    """Passes an amount up to and including the cap."""

    amount_minor: int
    reason: ClassVar[str] = "per_txn_cap_exceeded"

    def check(self, facts: Facts) -> Step:
        outcome = "pass" if facts.amount_minor <= self.amount_minor else "fail"
        return Step("per_txn_cap", outcome, facts.amount_minor, self.amount_minor)
