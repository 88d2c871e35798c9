"""Percentiles, windows, medians and ratios."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from loadtests.figures import (
    GUARD_SECONDS,
    Samples,
    Slice,
    TableGrowth,
    Window,
    latencies_ms,
    median_slice,
    percentile,
    rate,
    ratio,
    share_background,
    total_growth,
)


def slice_of(decisions_per_second: float = 1000.0, **changes: object) -> Slice:
    """A slice with plausible figures."""
    plain = Slice(
        workload="wire",
        system="stanchion",
        decisions_per_second=decisions_per_second,
        p50_ms=1.0,
        p99_ms=2.0,
        server_cpu_us=100.0,
        server_parts_us={"hosts": 60.0, "edge": 40.0},
        generator_cpu_us=5.0,
        machine_busy=0.5,
        strangers_busy=0.0,
    )
    return msgspec.structs.replace(plain, **changes)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7.0], 0.99, 7.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.51, 3.0),
        ([float(number) for number in range(1, 101)], 0.99, 99.0),
        ([float(number) for number in range(1, 101)], 1.0, 100.0),
        ([1.0, 2.0], 0.0, 1.0),
    ],
)
def test_percentile_is_the_nearest_rank(values: list[float], share: float, expected: float) -> None:
    random.Random(1).shuffle(values)
    assert percentile(values, share) == expected


def test_percentile_of_no_values_is_nan() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_rate_counts_answers_inside_the_window() -> None:
    samples = Samples(started=[0.0] * 4, done=[0.9, 1.0, 2.5, 3.0])
    assert rate(samples, Window(1.0, 3.0)) == 1.0


def test_latencies_are_of_requests_begun_in_the_window() -> None:
    window = Window(1.0, 2.0)
    samples = Samples(started=[0.99, 1.0, 1.5, 2.0 - GUARD_SECONDS / 2, 2.0], done=[1.1, 1.25, 9.5, 2.1, 2.2])
    assert latencies_ms(samples, window) == pytest.approx([250.0, 8000.0])


def test_generators_of_one_slice_add_up() -> None:
    samples = Samples(started=[1.0], done=[2.0], approved=1)
    samples.extend(Samples(started=[1.5], done=[2.5], approved=2, refused=3, lost=4, lateness=[0.1]))
    assert samples == Samples(
        started=[1.0, 1.5], done=[2.0, 2.5], approved=3, refused=3, lost=4, lateness=[0.1]
    )


def test_medians_are_per_figure_and_counts_add_up() -> None:
    found = median_slice(
        [
            slice_of(100.0, p99_ms=9.0, lost=1, approved=10, server_parts_us={"hosts": 10.0}),
            slice_of(300.0, p99_ms=1.0, lost=0, approved=30, server_parts_us={"hosts": 30.0, "edge": 3.0}),
            slice_of(200.0, p99_ms=5.0, lost=2, approved=20, server_parts_us={"hosts": 20.0, "edge": 1.0}),
        ]
    )
    assert (found.decisions_per_second, found.p99_ms, found.lost, found.approved) == (200.0, 5.0, 3, 60)
    assert found.server_parts_us == {"hosts": 20.0, "edge": 1.0}
    assert found.decisions_per_commit is None


def test_growth_adds_up_by_table() -> None:
    found = median_slice(
        [
            slice_of(100.0, decided=10, tables={"journal": TableGrowth(100, 10)}),
            slice_of(100.0, decided=30, tables={"journal": TableGrowth(300, 50), "holds": TableGrowth(8, 0)}),
        ]
    )
    assert found.decided == 40
    assert found.tables == {"journal": TableGrowth(400, 60), "holds": TableGrowth(8, 0)}
    assert total_growth([]) == {}


def test_ratios_compare_neighbouring_slices() -> None:
    found = ratio([10.0, 40.0, 30.0], [5.0, 10.0, 10.0])
    assert (found.median, found.low, found.high) == (3.0, 2.0, 4.0)


def test_ratios_need_both_sides_of_each_pair() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


def test_a_side_without_decisions_gives_an_infinite_ratio() -> None:
    found = ratio([10.0, 40.0], [5.0, 0.0])
    assert (found.low, found.high) == (2.0, math.inf)


def with_background(
    background_us: float, wal_bytes: float, server: str, decisions_per_second: float = 1000.0
) -> Slice:
    parts = {"hosts": 60.0, "postgres background": background_us}
    return slice_of(
        decisions_per_second,
        server_cpu_us=60.0 + background_us,
        server_parts_us=parts,
        wal_bytes=wal_bytes,
        server=server,
    )


def test_background_is_divided_by_the_log_that_decisions_wrote() -> None:
    """A vacuum ran during the second slice. The first one wrote three quarters of the log."""
    busy = with_background(0.0, 2000.0, "a", decisions_per_second=3000.0)
    paced = with_background(400.0, 4000.0, "a", decisions_per_second=500.0)
    elsewhere = with_background(7.0, 2000.0, "b")
    shared = share_background([busy, paced, elsewhere])
    assert [each.server_parts_us["postgres background"] for each in shared] == [50.0, 100.0, 7.0]
    assert [each.server_cpu_us for each in shared] == [110.0, 160.0, 67.0]
    assert share_background(shared) == shared


def test_slice_without_a_log_keeps_its_figures() -> None:
    plain = slice_of()
    assert share_background([plain]) == [plain]
