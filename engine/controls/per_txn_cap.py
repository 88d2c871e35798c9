"""``per_txn_cap``: the largest single authorization with all its increments, in the card's currency."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class PerTxnCap(msgspec.Struct, frozen=True, tag_field="kind", tag="per_txn_cap"):
    """Passes a total up to and including the cap. The total is the requested amount, for an increment
    together with the authorization that it raises; the step shows it."""

    amount_minor: int
    reason: ClassVar[str] = "per_txn_cap_exceeded"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        total_minor = control_input.authorized_minor + control_input.amount_minor
        return TraceStep(
            "per_txn_cap", verdict(total_minor <= self.amount_minor), total_minor, self.amount_minor
        )
