"""From samples to figures: pure arithmetic, so that what a report says can be tested."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

GUARD_SECONDS = 0.02
"""What was begun this shortly before the end of a window is left out of the latencies: reading the meters
holds the generator up."""


class Samples(msgspec.Struct):
    """Every request of one slice: instants in monotonic seconds."""

    started: list[float] = []
    """When it was sent, or, in an open loop, when it should have been."""
    done: list[float] = []
    """When its answer came, in the order of ``started``."""
    approved: int = 0
    """Approvals that the caller was told of."""
    refused: int = 0
    """Answers that were no approvals."""
    lost: int = 0
    """Requests that got no answer."""
    partial: bool = False
    """Whether ``started`` and ``done`` hold a sample of the requests only."""
    lateness: list[float] = []
    """Seconds by which an open loop sent later than it should have."""
    round_trips: int = 0
    """To the database, where the caller has made them itself."""
    calls: int = 0
    """Between processes, where the caller has made them itself."""

    def extend(self, other: Samples) -> None:
        """Add what another generator of the same slice saw."""
        for name in ("started", "done", "lateness"):
            getattr(self, name).extend(getattr(other, name))
        self.approved += other.approved
        self.refused += other.refused
        self.lost += other.lost
        self.round_trips += other.round_trips
        self.calls += other.calls


class Window(msgspec.Struct, frozen=True):
    """The measured part of a slice, in monotonic seconds."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Slice(msgspec.Struct, kw_only=True):
    """What one slice showed. Rates are for each second, CPU in microseconds for each decision."""

    workload: str
    system: str
    decisions_per_second: float
    p50_ms: float
    p99_ms: float
    server_cpu_us: float
    server_parts_us: dict[str, float]
    generator_cpu_us: float
    machine_busy: float
    """Share of all cores that was not idle, whoever used it."""
    strangers_busy: float
    """Share of all cores that went to neither the measured processes nor the generator."""
    inside: bool = False
    """Whether the generator is one of the servers' own processes, or counted as if it were."""
    decisions_per_commit: float | None = None
    sql_round_trips: float | None = None
    """To the database for each decision."""
    process_calls: float | None = None
    """Between processes for each decision, on its way in."""
    wal_bytes: float | None = None
    """Write-ahead log (of Redis: its file) for each decision."""
    approved: int = 0
    """Approvals of the whole slice, warm-up included."""
    refused: int = 0
    lost: int = 0
    lateness_p99_ms: float | None = None


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ``values``, which need not be sorted; not a number when there are
    none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def rate(samples: Samples, window: Window) -> float:
    """Answers for each second of the window."""
    return sum(window.begin <= at < window.end for at in samples.done) / window.seconds


def latencies_ms(samples: Samples, window: Window) -> list[float]:
    """Latencies of what was begun in the window, whenever it ended: leaving out what outlasts the window
    would flatter."""
    last = window.end - GUARD_SECONDS
    return [
        (done - started) * 1000
        for started, done in zip(samples.started, samples.done, strict=True)
        if window.begin <= started < last
    ]


def median_slice(slices: Sequence[Slice]) -> Slice:
    """The median of each figure over the slices of one workload and system; counts are summed."""
    first = slices[0]
    figures: dict[str, Any] = {}
    for name in Slice.__struct_fields__:
        values = [value for each in slices if (value := getattr(each, name)) is not None]
        if values and isinstance(values[0], float):
            figures[name] = statistics.median(values)
        elif values and isinstance(values[0], int) and not isinstance(values[0], bool):
            figures[name] = sum(values)
    parts = {part for each in slices for part in each.server_parts_us}
    figures["server_parts_us"] = {
        part: statistics.median(each.server_parts_us.get(part, 0.0) for each in slices) for part in parts
    }
    return msgspec.structs.replace(first, **figures)


class Ratio(msgspec.Struct, frozen=True):
    """Ours over the rival's: median, smallest and largest over the pairs of neighbouring slices."""

    median: float
    low: float
    high: float


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Slices are paired in the order in which they ran, so that a slow minute of the machine hits both
    sides of a pair. Over nothing at all, anything is infinitely more."""
    ratios = [mine / yours if yours else math.inf for mine, yours in zip(ours, theirs, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
