"""Back-tests of many decisions: the verdict."""

from __future__ import annotations

from typing import Any

import msgspec

from loadtests.backtests import CPU_MICROSECONDS_MAX, MEMORY_MAX, NONE, Measured, _faults

WITHIN = Measured("x", 1_000, 20, 1.0, CPU_MICROSECONDS_MAX, MEMORY_MAX)
RESULT: Any = {"flips": {"approved_to_declined": 1}, "by_day": [1], "started_at": "x"}


def test_equal_results_within_the_targets_are_no_fault() -> None:
    restarted = msgspec.structs.replace(WITHIN, cpu_us=None)
    assert _faults([WITHIN, restarted], RESULT, RESULT | {"started_at": "y"}) == []


def test_another_result_and_missed_targets_are_faults() -> None:
    dear = msgspec.structs.replace(WITHIN, cpu_us=CPU_MICROSECONDS_MAX + 1, memory_bytes=MEMORY_MAX + 1)
    assert len(_faults([dear], RESULT, RESULT)) == 2
    assert _faults([], RESULT, RESULT | {"by_day": [2]}) == ["after the restart, by_day is another"]


def test_change_that_turns_too_few_or_too_many_is_a_fault() -> None:
    idle, busy = (msgspec.structs.replace(WITHIN, name=name, turned=n) for name, n in (("x", 3), (NONE, 30)))
    assert len(_faults([idle, busy], RESULT, RESULT)) == 2
    assert _faults([msgspec.structs.replace(busy, turned=0)], RESULT, RESULT) == []
