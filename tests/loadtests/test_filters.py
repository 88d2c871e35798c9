"""Filters over a long history: the verdict."""

from __future__ import annotations

from loadtests.filters import PAGE_MS_MAX, ROWS_MAX, Page, _faults
from loadtests.harness.explained import Reading


def page(milliseconds: float = 1.0, reading: Reading | None = None) -> Page:
    return Page(
        path="/v1/transactions",
        query={"mcc": "5411"},
        rows=50,
        milliseconds=milliseconds,
        reading=reading or Reading(),
    )


def test_pages_within_their_limits_are_no_fault() -> None:
    read = page(reading=Reading(ROWS_MAX, {"Index Scan transactions_of_card"}))
    assert _faults([page(PAGE_MS_MAX)], [read]) == []


def test_slow_pages_and_scans_are_faults() -> None:
    read = [page(reading=Reading(ROWS_MAX + 1)), page(reading=Reading(1, {"Seq Scan"}))]
    faults = _faults([page(PAGE_MS_MAX + 0.1)], read)
    assert len(faults) == 3
    assert faults[0] == "/v1/transactions mcc=5411: 20.1 ms"
