"""Histograms count every observation, and the tables of metrics agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.metrics import BUCKETS, LABELS, METRICS, SECONDS, Histogram, process_figures


@given(st.lists(st.floats(0, 10)))
def test_no_observation_is_lost(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    counts, total = histogram.figure()
    assert total == pytest.approx(sum(values))
    for number, bound in enumerate(SECONDS):
        assert sum(counts[: number + 1]) == sum(value <= bound for value in values)
    assert sum(counts) == len(values)


def test_labels_and_buckets_belong_to_metrics() -> None:
    assert LABELS.keys() | BUCKETS.keys() <= METRICS.keys()
    assert all(METRICS[name][0] == "histogram" for name in BUCKETS)
    assert all("process" not in names for names in LABELS.values())
    assert all(list(bounds) == sorted(set(bounds)) for bounds in (SECONDS, *BUCKETS.values()))


def test_process_figures_are_metrics() -> None:
    assert process_figures().keys() <= METRICS.keys()
