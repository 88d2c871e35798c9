"""Latencies as counts in buckets, so that those of many slots add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BOUNDS_MS: Final = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 400, 500),
    *(600, 800, 1_000, 1_200, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 7_000, 10_000),
)
"""Bucket ``n`` holds the latencies from ``BOUNDS_MS[n - 1]`` (bucket 0: from zero) to below ``BOUNDS_MS[n]``;
the last one holds all longer ones (``width_bucket`` of PostgreSQL). Stored figures name buckets by number:
never change a bound."""


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The latency in milliseconds that ``share`` of the counted ones do not exceed, interpolated within its
    bucket; ``None`` without counts."""
    wanted = share * sum(counts.values())
    below = 0
    for bucket in sorted(counts):
        count = counts[bucket]
        if count and below + count >= wanted:
            low = BOUNDS_MS[bucket - 1] if bucket else 0
            high = BOUNDS_MS[bucket] if bucket < len(BOUNDS_MS) else low
            return low + (high - low) * (wanted - below) / count
        below += count
    return None
