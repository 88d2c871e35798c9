"""The report: its summary, its text, and the verdict on the targets."""

from __future__ import annotations

import msgspec

from loadtests.harness.footprint import Footprint
from loadtests.reports.report import BenchReport, Proof
from loadtests.reports.text import table
from tests.loadtests.test_figures import slice_of

FOOTPRINT = Footprint(
    system="stanchion",
    ready_seconds=7.84,
    idle_cpu={"hosts": 0.03, "edge": 0.02, "redis": 0.0},
    pss_bytes={"hosts": 300 * 2**20, "edge": 100 * 2**20},
    processes=12,
)


def report(**changes: object) -> BenchReport:
    """A run of two rounds over one workload, twice as fast as the rival."""
    ours = [slice_of(9000.0, server_cpu_us=240.0, decisions_per_commit=40.0), slice_of(8500.0)]
    theirs = [
        slice_of(3000.0, system="row locks", server_cpu_us=480.0),
        slice_of(4250.0, system="row locks", refused=1, lost=2),
    ]
    made = BenchReport(
        machine={"cpu": "test, 2 cores"},
        database={"server_version": "18.6", "fsync": "on"},
        fsync_ms={"p50": 0.2, "p99": 0.4},
        plan={"seconds": 3.0, "rounds": 2},
        footprints=[FOOTPRINT],
        titles={"wire": "over the wire", "rest": "not measured"},
        slices=[ours[0], theirs[0], ours[1], theirs[1]],
        proofs=[Proof("stanchion", 12345, 12345), Proof("row locks", 99, 98)],
    )
    made = msgspec.structs.replace(made, **changes)
    made.summarise()
    return made


def test_a_summary_has_only_measured_figures() -> None:
    made = report()
    assert list(made.summary) == ["wire"]
    assert made.summary["wire"]["stanchion"].decisions_per_second == 8750.0
    found = made.ratios["wire"]["row locks"]["decisions_per_second"]
    assert (found.median, found.low, found.high) == (2.5, 2.0, 3.0)


def test_the_text_shows_medians_ratios_and_the_proof() -> None:
    text = report().text()
    assert "- PostgreSQL: server_version 18.6, fsync on" in text
    assert "proof, approvals answered and held: stanchion 12,345 and 12,345; row locks 99 and 98\n" in text
    assert "| stanchion " in text
    row = next(line for line in text.splitlines() if "| 7.8 " in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == ["7.8", "5.0%", "400", "12", "hosts 3.0%, edge 2.0%", "hosts 300, edge 100"]
    assert "| over the wire | stanchion | 8,750 " in text
    assert "2.50 (2.00–3.00)" in text
    assert "1, 2" in text, "refused and lost answers are never left out"


def test_targets_are_judged_if_measured() -> None:
    lines = [line for line in report().text().splitlines() if "≥" in line or " ≤ " in line]
    verdicts = {line.split("|")[1].strip(): line.split("|")[4].strip() for line in lines}
    assert verdicts == {
        "server CPU for each decision over ISO 8583, µs": "reached",
        "decisions/s over ISO 8583": "reached",
        "the same ÷ row locks": "×1.20 away",
    }


def test_a_system_without_a_rival_is_shown_alone() -> None:
    alone = report(slices=[slice_of(100.0, workload="rest", lateness_p99_ms=0.4)])
    assert alone.ratios == {}
    assert "(sent ≤ 0.4 late)" in alone.text()


def test_a_shape_is_the_kept_share_of_the_uniform_figure() -> None:
    slices = [slice_of(1000.0), slice_of(2000.0), slice_of(900.0, workload="hot")]
    slices += [slice_of(1000.0, workload="hot")]
    slices += [slice_of(500.0, system="row locks", workload="hot")] * 2
    made = report(slices=slices, titles={"wire": "over the wire", "hot": "one card"}, uniform={"hot": "wire"})
    assert list(made.shapes["hot"]) == ["stanchion"], "row locks were not measured on uniform cards"
    found = made.shapes["hot"]["stanchion"]
    assert (found.median, found.low, found.high) == (0.7, 0.5, 0.9)
    assert "| decisions/s ÷ uniform cards | stanchion        |" in made.text()


def test_an_interrupted_run_has_a_report() -> None:
    slices = [slice_of(1000.0), slice_of(2000.0), slice_of(500.0, workload="hot")]
    titles = {"wire": "over the wire", "hot": "one card"}
    made = report(slices=slices, titles=titles, uniform={"hot": "wire"}, failures=["it did not end"])
    assert made.shapes["hot"]["stanchion"].median == 0.5
    assert "- FAILED: it did not end\n" in made.text()
    assert "FAILED" not in report().text()


def test_callers_inside_a_system_count_as_part_of_it() -> None:
    inside = report(slices=[slice_of(counts_as_server=True, process_calls=0.031, sql_round_trips=0.02)])
    row = next(line for line in inside.text().splitlines() if line.startswith("| over the wire"))
    assert [cell.strip() for cell in row.split("|")][7:10] == ["included", "0.02", "0.031"]


def test_use_of_the_machine_by_others_is_reported() -> None:
    assert (
        "of the machine; too much for final figures" in report(slices=[slice_of(strangers_busy=0.4)]).text()
    )
    assert "others (kernel threads among them) used 0% of the machine\n" in report().text()


def test_an_earlier_commit_is_one_more_system() -> None:
    slices = [slice_of(1000.0, server_cpu_us=200.0), slice_of(500.0, system="ab2f3c0", server_cpu_us=400.0)]
    made = report(slices=slices, against="ab2f3c0 of 2026-11-22 (release)", not_compared=["router"])
    text = made.text()
    assert "- compared with: ab2f3c0 of 2026-11-22 (release)\n" in text
    assert "- not compared, because they run inside the process: router" in text
    row = next(line for line in text.splitlines() if line.startswith("| wire        | ab2f3c0"))
    assert [cell.strip() for cell in row.split("|")][3:5] == ["2.00 (2.00–2.00)", "0.50 (0.50–0.50)"]
    assert "compared with" not in report().text()


def test_json_contains_every_slice() -> None:
    made = report()
    again = msgspec.json.decode(made.json(), type=BenchReport)
    assert again.slices == made.slices
    assert again.ratios == made.ratios


def test_tables_are_aligned_markdown() -> None:
    assert table(("name", "n"), [("a", "10"), ("long name", "5")]) == (
        "| name      | n  |\n"  # head
        "|-----------|----|\n"
        "| a         | 10 |\n"
        "| long name | 5  |"
    )
