"""The verdict on an hour of load."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec
import pytest

from loadtests.reports.endured import Endured, Period

PERIOD = Period(
    seconds=60.0,
    lives=300,
    waits_ms=array("f", [10.0] * 594 + [90.0] * 6),
    refused=0,
    server_cpu_seconds=0.24,
    strangers_busy=0.02,
    heap_bytes=500_000_000,
    lag_ms=6.0,
    data_bytes=2_000_000_000,
)


def endured(
    periods: Sequence[Period], lost: int = 0, rows_missing: int = 0, refused_outside: int = 0
) -> Endured:
    return Endured(
        machine={"day": "2026-11-24", "cpu": "two cores", "python": "3.11"},
        fsync_ms={"p50": 0.3, "p99": 4.1},
        in_flight=128,
        periods=list(periods),
        refused_outside=refused_outside,
        lost=lost,
        rows_missing=rows_missing,
    )


def changed(**change: object) -> Period:
    return msgspec.structs.replace(PERIOD, **change)


def test_flat_run_within_its_targets_is_not_broken() -> None:
    found = endured([PERIOD] * 8)
    assert found.broken == []
    assert (found.messages, found.seconds, found.growth("heap_bytes")) == (4_800, 480.0, 1.0)
    text = found.text()
    assert "| 8 | 10 | 5 | 10.0, 10.0, 90 | 400 | 2% | 500 | 6.0 | 2.0 |" in text
    assert "4,800 messages of 2,400 approved sales in 8 minutes: 10 and 5 a second" in text
    assert "missed" not in text


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (endured([PERIOD, changed(refused=3)], lost=1), "3 messages were refused and 1 lost"),
        (endured([PERIOD], refused_outside=1), "1 messages were refused and 0 lost"),
        (endured([PERIOD], rows_missing=2), "the journal lacks 2 rows"),
        (endured([changed(waits_ms=array("f", [101.0]))]), "p99 is 101 ms, more than 100"),
        (
            endured([PERIOD] * 3 + [changed(heap_bytes=560_000_000)]),
            "memory grew to 1.12 of the second quarter's",
        ),
        (
            endured([PERIOD] * 3 + [changed(lag_ms=9.0)]),
            "the lag of timers grew to 1.50 of the second quarter's",
        ),
    ],
)
def test_each_missed_target_is_named(found: Endured, missed: str) -> None:
    assert found.broken == [missed]
    assert f"- missed: {missed}" in found.text()


def test_short_lag_may_grow() -> None:
    assert endured([changed(lag_ms=1.0)] * 3 + [changed(lag_ms=4.0)]).broken == []


def test_few_periods_show_no_growth() -> None:
    assert endured([PERIOD, changed(heap_bytes=900_000_000)]).broken == []
