"""From samples to figures: pure arithmetic, so that reports can be tested."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

GUARD_SECONDS = 0.02
"""Latencies leave out requests that began this shortly before the end of a window: reading the meters delays
the generator."""


class Samples(msgspec.Struct):
    """Every request of one slice: instants in monotonic seconds."""

    started: list[float] = []
    """When it was sent, or, in an open loop, when it should have been."""
    done: list[float] = []
    """When its answer came, in the order of ``started``."""
    approved: int = 0
    """Approvals that callers received."""
    refused: int = 0
    """Answers that did not approve."""
    lost: int = 0
    """Requests that got no answer."""
    partial: bool = False
    """Whether ``started`` and ``done`` hold only a sample of the requests."""
    lateness: list[float] = []
    """Seconds by which an open loop sent later than it should have."""
    round_trips: int = 0
    """Round trips to the database, where the caller counts them."""
    calls: int = 0
    """Calls between processes, where the caller counts them."""

    def extend(self, other: Samples) -> None:
        """Add the samples of another generator of the same slice."""
        for name in ("started", "done", "lateness"):
            getattr(self, name).extend(getattr(other, name))
        self.approved += other.approved
        self.refused += other.refused
        self.lost += other.lost
        self.round_trips += other.round_trips
        self.calls += other.calls


BACKGROUND: Final = "postgres background"
"""The part of a server's CPU time that checkpoints, vacuums and the log's writer take."""


class Window(msgspec.Struct, frozen=True):
    """The measured part of a slice, in monotonic seconds."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class TableGrowth(msgspec.Struct, frozen=True):
    """Bytes by which a table and its indexes grew on disk."""

    row_bytes: int = 0
    index_bytes: int = 0

    def __add__(self, other: TableGrowth) -> TableGrowth:
        return TableGrowth(self.row_bytes + other.row_bytes, self.index_bytes + other.index_bytes)


class Slice(msgspec.Struct, kw_only=True):
    """The figures of one slice. Rates are per second, CPU is in microseconds per decision."""

    workload: str
    system: str
    decisions_per_second: float
    p50_ms: float
    p99_ms: float
    server_cpu_us: float
    server_parts_us: dict[str, float]
    generator_cpu_us: float
    machine_busy: float
    """Share of all cores that was not idle, used by any process."""
    strangers_busy: float
    """Share of all cores that went to neither the measured processes nor the generator."""
    counts_as_server: bool = False
    """Whether the generator counts as one of the server processes."""
    decisions_per_commit: float | None = None
    sql_round_trips: float | None = None
    """Round trips to the database per decision."""
    process_calls: float | None = None
    """Calls between processes per decision, on the way in."""
    wal_bytes: float | None = None
    """Bytes of write-ahead log (Redis: append-only file) per decision."""
    tables: dict[str, TableGrowth] = {}
    """Growth of each table during the whole slice, warm-up included."""
    decided: int = 0
    """Decisions of the whole slice, warm-up included."""
    approved: int = 0
    """Approvals of the whole slice, warm-up included."""
    refused: int = 0
    lost: int = 0
    lateness_p99_ms: float | None = None
    server: str = ""
    """Names the database server; empty if it has no log that can be read."""


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ``values``, in any order; NaN when there are none.

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
    """Latencies of requests that began in the window, whenever they ended: leaving out requests that outlast
    the window would flatter the system."""
    last = window.end - GUARD_SECONDS
    return [
        (done - started) * 1000
        for started, done in zip(samples.started, samples.done, strict=True)
        if window.begin <= started < last
    ]


def median_slice(slices: Sequence[Slice]) -> Slice:
    """The median of each figure over the slices of one workload and system; counts and growth are summed."""
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
    figures["tables"] = total_growth(each.tables for each in slices)
    return msgspec.structs.replace(first, **figures)


def share_background(slices: Sequence[Slice]) -> list[Slice]:
    """Divide the CPU time of each server's background processes among its decisions by the log that they
    wrote.

    Checkpoints and vacuums come long after the decisions that cause them, often in a slice of another system
    or workload. All windows have the same length.
    """
    used: defaultdict[str, float] = defaultdict(float)
    written: defaultdict[str, float] = defaultdict(float)
    for each in slices:
        used[each.server] += each.decisions_per_second * _background_us(each)
        written[each.server] += each.decisions_per_second * (each.wal_bytes or 0.0)
    return [
        _with_background(each, used[each.server] * (each.wal_bytes or 0.0) / written[each.server])
        if written[each.server]
        else each
        for each in slices
    ]


def _background_us(about: Slice) -> float:
    return about.server_parts_us.get(BACKGROUND, 0.0)


def _with_background(about: Slice, background_us: float) -> Slice:
    parts = about.server_parts_us | ({BACKGROUND: background_us} if background_us else {})
    server_us = about.server_cpu_us + background_us - _background_us(about)
    return msgspec.structs.replace(about, server_parts_us=parts, server_cpu_us=server_us)


def total_growth(grown: Iterable[Mapping[str, TableGrowth]]) -> dict[str, TableGrowth]:
    """The sums by table."""
    sums: dict[str, TableGrowth] = {}
    for tables in grown:
        for name, each in tables.items():
            sums[name] = sums.get(name, TableGrowth()) + each
    return sums


class Ratio(msgspec.Struct, frozen=True):
    """Ours over the rival's: median, smallest and largest over the pairs of neighbouring slices."""

    median: float
    low: float
    high: float


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Slices are paired in the order in which they ran, so that a slow minute of the machine affects both
    sides of a pair. A ratio over zero is infinite."""
    ratios = [mine / yours if yours else math.inf for mine, yours in zip(ours, theirs, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
