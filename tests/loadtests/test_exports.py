"""Exports of many rows: the verdict."""

from __future__ import annotations

import msgspec

from loadtests.exports import MEMORY_MAX, Found
from loadtests.harness.exported import Sums

RIGHT = Found("transactions", Sums(2, {"a": 7}), Sums(2, {"a": 7}), 100, 1.0, {"API server": MEMORY_MAX}, 0)


def test_right_sums_in_bounded_memory_are_no_fault() -> None:
    assert RIGHT.faults == []


def test_wrong_sums_and_too_much_memory_are_faults() -> None:
    assert len(msgspec.structs.replace(RIGHT, file=Sums(2, {"a": 8})).faults) == 1
    assert len(msgspec.structs.replace(RIGHT, file=Sums(1, {"a": 7})).faults) == 1
    assert len(msgspec.structs.replace(RIGHT, growth={"API server": MEMORY_MAX + 1}).faults) == 1
