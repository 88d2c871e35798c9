"""State changes of one batch are merged for each simulation."""

from __future__ import annotations

import msgspec

from actors.network.simulation_store import SaleIncrease, StateChange, merge_changes


def test_changes_of_one_simulation_are_merged() -> None:
    sent = StateChange(simulation_id="a", state="sent", sent_ms=1)
    other = StateChange(simulation_id="b", state="sent", sent_ms=2)
    increase = SaleIncrease("a", 5)
    decided = StateChange(
        simulation_id="a", state="decided", decided_ms=3, response_code="51", increase=increase
    )
    late_failure = StateChange(simulation_id="a", state="failed", failed_ms=4)
    assert merge_changes([sent, other, decided]) == [msgspec.structs.replace(decided, sent_ms=1), other]
    assert merge_changes([sent, decided, late_failure]) == [msgspec.structs.replace(decided, sent_ms=1)]
