"""Percentiles from buckets: within the bucket of the exact value."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from api.console.activity.latency import BOUNDS_MS, percentile


def bucket_of(latency_ms: float) -> int:
    """The bucket, as PostgreSQL counts it."""
    return bisect_right(BOUNDS_MS, latency_ms)


def test_bounds_rise() -> None:
    assert list(BOUNDS_MS) == sorted(set(BOUNDS_MS))


def test_percentile_without_counts_is_none() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({3: 0}, 0.5) is None


def test_percentile_is_interpolated_within_its_bucket() -> None:
    assert percentile({bucket_of(12): 4}, 0.5) == 13.5
    assert percentile({bucket_of(12): 98, bucket_of(300): 2}, 0.99) == 350.0


def test_latency_above_every_bound_counts_as_the_last_bound() -> None:
    assert percentile({bucket_of(60_000): 1}, 0.99) == BOUNDS_MS[-1]


@given(
    st.lists(st.floats(0, 9_999, allow_nan=False), min_size=1, max_size=60),
    st.sampled_from((0.5, 0.9, 0.99)),
)
def test_percentile_lies_in_the_bucket_of_the_exact_one(latencies: list[float], share: float) -> None:
    exact = sorted(latencies)[math.ceil(share * len(latencies)) - 1]
    found = percentile(Counter(map(bucket_of, latencies)), share)
    bucket = bucket_of(exact)
    low, high = (BOUNDS_MS[bucket - 1] if bucket else 0), BOUNDS_MS[bucket]
    assert found is not None
    assert low <= found <= high
