"""Moves that wait together become one."""

from __future__ import annotations

import msgspec

from actors.network.simulations import Addition, Move, merge


def test_moves_of_one_row_become_one() -> None:
    sent = Move(simulation_id="a", state="sent", sent_ms=1)
    other = Move(simulation_id="b", state="sent", sent_ms=2)
    addition = Addition("a", 5)
    decided = Move(simulation_id="a", state="decided", decided_ms=3, response_code="51", addition=addition)
    late_failure = Move(simulation_id="a", state="failed", failed_ms=4)
    assert merge([sent, other, decided]) == [msgspec.structs.replace(decided, sent_ms=1), other]
    assert merge([sent, decided, late_failure]) == [msgspec.structs.replace(decided, sent_ms=1)]
