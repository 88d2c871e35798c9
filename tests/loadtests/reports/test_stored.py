"""Rows and bytes for each decision, by table."""

from __future__ import annotations

import msgspec

from loadtests.figures import TableGrowth
from loadtests.reports.stored import Stored, text

OURS = Stored(
    system="stanchion",
    decisions=1_000,
    log_bytes=2_000_000,
    page_image_bytes=500_000,
    rows={"journal": 1_000, "events": 2_000, "cards": 0, "clients": 1},
    tables={
        "journal": TableGrowth(400_000, 100_000),
        "events": TableGrowth(600_000, 200_000),
        "card_usage": TableGrowth(0, 500),
    },
)


def cells(line: str) -> list[str]:
    """The cells of a row of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_largest_table_comes_first_and_small_ones_are_summed() -> None:
    lines = text([OURS]).strip().splitlines()
    assert cells(lines[0])[0] == "stanchion, for each of 1,000 decisions"
    assert [cells(line) for line in lines[2:6]] == [
        ["events", "2.00", "600", "200", "800"],
        ["journal", "1.00", "400", "100", "500"],
        ["others (card_usage, clients)", "0.00", "0", "0", "0"],
        ["all tables", "3.00", "1,000", "300", "1,300"],
    ]
    assert lines[-1] == "- log: 2,000 bytes for each decision, 500 of them full page images"


def test_two_versions_are_compared_for_each_decision() -> None:
    theirs = msgspec.structs.replace(OURS, system="ab2f3c0", decisions=500)
    found = text([OURS, theirs]).strip().splitlines()[-1]
    assert found == "- stanchion ÷ ab2f3c0: 0.50 of the rows and indexes, 0.50 of the log"
