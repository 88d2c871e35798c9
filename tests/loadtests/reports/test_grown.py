"""The report on growing costs, and its command line."""

from __future__ import annotations

import msgspec
import pytest

from loadtests.growth import CARDS, arguments, counts
from loadtests.reports.grown import Grown, Point, Series
from tests.loadtests.test_figures import slice_of


def grown() -> Grown:
    """Two sizes of each series."""
    cheap, dear = slice_of(4000.0, server_cpu_us=200.0), slice_of(3600.0, server_cpu_us=220.0)
    points = [Point.of(1_000, cheap), Point.of(1_000_000, dear)]
    return Grown(
        machine={"cpu": "test"},
        fsync_ms={"p50": 0.2, "p99": 0.4},
        seconds=2.5,
        series=[
            Series("cards", "cards there are", points),
            Series("history", "commands of one card", [Point.of(0, cheap), Point.of(10, dear)]),
            Series("start", "shard hosts", [Point(1, 5.0), Point(8, 9.25)], "seconds"),
            Series("idle", "shard hosts", [Point(1, 8.0)], "% of one core"),
        ],
        bytes_per_active_card={"1000000": 1_900.0},
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_size_is_a_row() -> None:
    lines = grown().text().splitlines()
    rows = {cells(line)[0]: cells(line)[1:] for line in lines if line.startswith("| 1,000")}
    assert rows["1,000"][:5] == ["4,000", "1.0", "2.0", "200", "60"]
    assert rows["1,000,000"][0] == "3,600"


def test_series_side_by_side_omit_unmeasured_points() -> None:
    lines = grown().text().splitlines()
    at = next(number for number, line in enumerate(lines) if "% of one core" in line)
    assert [cells(line) for line in lines[at : at + 4 : 1] if "---" not in line] == [
        ["shard hosts", "seconds", "% of one core"],
        ["1", "5.0", "8.0"],
        ["8", "9.2", ""],
    ]


def test_growth_is_judged_if_there_is_a_target() -> None:
    text = grown().text()
    assert "| cards: cost at 1,000,000 ÷ at 1,000" in text
    verdicts = {
        cells(line)[0]: cells(line)[1:] for line in text.splitlines() if "÷ at" in line or "bytes of" in line
    }
    assert verdicts["cards: cost at 1,000,000 ÷ at 1,000"] == ["≤ 1.15", "1.10", "reached"]
    assert verdicts["history: cost at 10 ÷ at 0"] == ["", "1.10", ""]
    assert verdicts["bytes of memory for each active card, of 1,000,000"] == ["≤ 2,048", "1,900", "reached"]
    made = grown()
    dear = Series("cards", "x", [Point(1, 100.0), Point(2, 116.0)])
    text = msgspec.structs.replace(made, series=[dear]).text()
    assert ["≤ 1.15", "1.16", "missed"] in [cells(line)[1:] for line in text.splitlines()]


def test_one_size_shows_no_growth() -> None:
    assert Series("cards", "x", [Point(1, 1.0)]).growth is None


def test_the_page_has_a_plot_for_each_series() -> None:
    page = grown().page()
    assert page.count("<svg") == 4
    assert "<h2>history</h2>" in page


def test_failures_are_at_the_top() -> None:
    assert "- FAILED: one; two\n" in msgspec.structs.replace(grown(), failures=["one", "two"]).text()
    assert "FAILED" not in grown().text()


def test_json_contains_everything() -> None:
    made = grown()
    assert msgspec.json.decode(made.json(), type=Grown) == made


def test_sizes_are_numbers_in_rising_order() -> None:
    assert counts("0,10,1000") == (0, 10, 1000)
    assert arguments([]).cards == CARDS
    assert arguments(["--hosts", "1,4"]).hosts == (1, 4)


@pytest.mark.parametrize("text", ["", "x", "-1", "10,1", "1,1", "1,,2"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse makes the message
        counts(text)
