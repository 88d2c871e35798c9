"""Settlement reports against the ledger: what counts as a fault."""

from __future__ import annotations

import msgspec

from loadtests.harness.settled import Programme, Settled

RIGHT = Programme("p", 100, 100, 100, 4, 4)


def test_equal_numbers_are_no_fault() -> None:
    books = Settled([RIGHT], [10.0, 30.0, 20.0])
    assert (books.faults, books.reports) == ([], 3)
    assert books.lines()[1] == "- one report: p50 20 ms, at most 30 ms"


def test_each_difference_is_a_fault() -> None:
    for change in (
        {"reported_minor": 99},
        {"balance_minor": 99},
        {"entries_minor": 99},
        {"reported_entries": 3},
    ):
        wrong = msgspec.structs.replace(RIGHT, **change)
        assert len(Settled([RIGHT, wrong], [1.0]).faults) == 1, change
