"""The verdict of a load test: its failure ratio and latencies compared with thresholds."""

from __future__ import annotations

import msgspec


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds of a passed run. Latencies in milliseconds."""

    failures: float = 0.0
    """Share of requests, 0 to 1."""
    p95_ms: float = 500.0
    p99_ms: float = 1_000.0
    requests_min: int = 1
    """A run with fewer requests fails."""


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    requests: int
    failures: int
    p95_ms: float
    p99_ms: float


def breaches(measured: RunFigures, thresholds: Thresholds) -> list[str]:
    """The missed thresholds, one sentence each; an empty list means passed."""
    found = []
    if measured.requests < thresholds.requests_min:
        found.append(f"only {measured.requests} requests were made")
    ratio = measured.failures / max(1, measured.requests)
    if ratio > thresholds.failures:
        found.append(
            f"{measured.failures} of {measured.requests} requests failed, more than {thresholds.failures:.2%}"
        )
    for name in ("p95_ms", "p99_ms"):
        seen, allowed = getattr(measured, name), getattr(thresholds, name)
        if seen > allowed:
            found.append(f"{name.removesuffix('_ms')} is {seen:.0f} ms, above {allowed:.0f} ms")
    return found
