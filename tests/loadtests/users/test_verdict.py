"""A run passes, or names the breached thresholds."""

from __future__ import annotations

import pytest

from loadtests.users.verdict import RunFigures, Thresholds, breaches

GOOD = {"requests": 1_000, "failures": 10, "p95_ms": 100.0, "p99_ms": 200.0}
LIMITS = Thresholds(failures=0.01, p95_ms=100.0, p99_ms=200.0)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"failures": 11}, ["11 of 1000 requests failed, more than 1.00%"]),
        ({"p95_ms": 101.0}, ["p95 is 101 ms, above 100 ms"]),
        ({"p99_ms": 900.0, "p95_ms": 500.0}, ["p95 is 500 ms, above 100 ms", "p99 is 900 ms, above 200 ms"]),
        ({"requests": 0, "failures": 0}, ["only 0 requests were made"]),
    ],
)
def test_breached_thresholds_are_named(change: dict[str, float], found: list[str]) -> None:
    measured = RunFigures(**(GOOD | change))  # type: ignore[arg-type]
    assert breaches(measured, LIMITS) == found
