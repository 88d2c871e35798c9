"""Figures to plan with: the arithmetic, and the sections of the page."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.figures import Slice, TableGrowth
from loadtests.reports.planning import (
    CORE_MONTH,
    CORES_MIN,
    GIGABYTE_MONTH,
    MONTH_SECONDS,
    MONTHS_KEPT,
    Inputs,
    ahead,
    cost,
    inputs_of,
    planning,
)
from loadtests.reports.report import BenchReport
from tests.loadtests.reports.test_report import report
from tests.loadtests.test_figures import slice_of

INPUTS = Inputs(
    idle_cores=0.1,
    paced_per_second=500.0,
    paced_cpu_us=2_000.0,
    busy_per_second=6_000.0,
    busy_cpu_us=250.0,
    paced_log_bytes=9_000.0,
    busy_log_bytes=4_000.0,
    kept_bytes=2_000.0,
)


def measured(**changes: object) -> BenchReport:
    """A run with all inputs of the cost."""
    sizes = {"journal": TableGrowth(150_000, 50_000)}
    busy: dict[str, object] = {"server_cpu_us": 250.0, "wal_bytes": 4_000.0, "tables": sizes, "decided": 100}
    slices: list[Slice] = [
        slice_of(6_000.0, **busy),
        slice_of(500.0, workload="wire-open", server_cpu_us=2_000.0, wal_bytes=9_000.0),
    ]
    titles = {"wire": "over the wire", "wire-open": "at a rate"}
    return report(
        slices=slices, titles=titles, machine={"day": "2026-11-23", "cpu": "test", "python": "3"}, **changes
    )


@pytest.mark.parametrize(
    ("per_second", "cores"),
    [
        (0, 0.1),  # idle
        (100, 0.1 + 100 * 1_800e-6),  # the paced cost without the idle share
        (500, 1.0),  # as measured
        (5_000, 1.5),  # not more than at saturation
        (6_000, 1.5),  # as measured
        (12_000, 3.0),  # in proportion
    ],
)
def test_cores_follow_from_the_measured_rates(per_second: float, cores: float) -> None:
    assert INPUTS.cores_used(per_second) == pytest.approx(cores)


@given(st.lists(st.floats(0, 100_000), min_size=2, max_size=20))
def test_more_decisions_never_need_fewer_cores_or_less_money(rates: list[float]) -> None:
    for lower, higher in itertools.pairwise(sorted(rates)):
        assert INPUTS.cores_used(lower) <= INPUTS.cores_used(higher)
        assert INPUTS.money_a_month(lower) <= INPUTS.money_a_month(higher)


def test_log_is_bounded_by_that_of_saturation() -> None:
    assert INPUTS.log_bytes_a_second(100) == pytest.approx(900_000)
    assert INPUTS.log_bytes_a_second(5_000) == pytest.approx(24_000_000)
    assert INPUTS.log_bytes_a_second(12_000) == pytest.approx(48_000_000)


def test_money_is_for_provided_cores_and_kept_rows() -> None:
    gigabytes = 5_000 * MONTH_SECONDS * 2_000 / 1e9
    assert INPUTS.gigabytes_a_month(5_000) == pytest.approx(gigabytes)
    expected = 3.0 * CORE_MONTH + gigabytes * MONTHS_KEPT * GIGABYTE_MONTH
    assert INPUTS.money_a_month(5_000) == pytest.approx(expected)
    assert INPUTS.cores_provided(1) == CORES_MIN


def test_inputs_are_those_of_the_run() -> None:
    found = inputs_of(measured())
    assert found is not None
    assert found == msgspec.structs.replace(INPUTS, idle_cores=pytest.approx(0.05))


def test_the_cost_names_its_inputs_and_each_rate() -> None:
    lines = cost(INPUTS).splitlines()
    assert lines[0] == "- idle: 0.100 cores"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == ["1", "100", "5,000"]
    assert rows[3][1:5] == ["1.50", "3.0", "24", "26,300"]


def test_sections_say_where_the_figures_are_from() -> None:
    sections = planning(measured())
    assert sections["capacity"].startswith("Measured on 2026-11-23: test; Python 3.\n\n| workload ")
    assert sections["cost"].startswith("Measured on 2026-11-23: test; Python 3.\n\n- idle: ")
    assert "| over the wire | 6,000 " in sections["capacity"]
    assert "| hosts " in sections["capacity"]
    assert sections["ahead"] == "", "no rival was measured"


def test_a_run_without_an_input_has_no_cost() -> None:
    assert planning(measured(footprints=[]))["cost"] == ""
    assert planning(report())["cost"] == ""


def test_rivals_that_are_ahead_are_listed_by_distance() -> None:
    slices = [
        slice_of(100.0, workload="near"),
        slice_of(110.0, workload="near", system="row locks"),
        slice_of(100.0, workload="far"),
        slice_of(300.0, workload="far", system="PL/pgSQL batches"),
        slice_of(200.0, workload="far", system="ab2f3c0"),
        slice_of(100.0, workload="won"),
        slice_of(50.0, workload="won", system="row locks"),
        slice_of(100.0, workload="dear", server_cpu_us=200.0),
        slice_of(50.0, workload="dear", system="row locks"),
    ]
    found = ahead(report(slices=slices, titles={name: name for name in ("near", "far", "won", "dear")}))
    rows = [line.strip("|").split("|")[:2] for line in found.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["far", "PL/pgSQL batches"],
        ["near", "row locks"],
        ["dear", "row locks"],
    ]
