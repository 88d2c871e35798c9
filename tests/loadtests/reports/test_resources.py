"""Bytes for each decision."""

from __future__ import annotations

from loadtests.figures import TableGrowth
from loadtests.reports.resources import at_rest, bytes_of
from tests.loadtests.test_figures import slice_of


def test_bytes_are_divided_by_the_decisions_that_wrote_them() -> None:
    tables = {
        "events": TableGrowth(4_000, 1_000),
        "journal": TableGrowth(50_000, 30_000),
        "cards": TableGrowth(10, 0),
    }
    found = slice_of(wal_bytes=3_912.4, decided=100, tables=tables)
    rows = bytes_of({"wire": {"stanchion": found, "Redis script": slice_of(wal_bytes=80.0)}}).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[2] == ["wire, stanchion", "3,912", "540", "310", "journal 500 + 300, events 40 + 10"]
    assert cells[3] == ["wire, Redis script", "80", "", "", ""]


def test_a_run_without_sizes_has_no_table() -> None:
    assert bytes_of({"wire": {"stanchion": slice_of()}}) == ""
    assert at_rest([]) == ""
