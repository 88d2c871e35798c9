"""What the endurance run computes from its meters."""

from __future__ import annotations

import pytest

from loadtests.endurance import lag_ms, waits_ms
from loadtests.figures import Samples
from loadtests.harness.metrics import Scrape


def test_latencies_are_kept_in_milliseconds() -> None:
    assert list(waits_ms(Samples(started=[1.0, 2.0], done=[1.5, 2.25]))) == [500.0, 250.0]


def test_lag_is_the_mean_of_the_timers_between_two_readings() -> None:
    before, after = (
        Scrape(at, {"stanchion_loop_lag_seconds_sum": total, "stanchion_loop_lag_seconds_count": count}, {})
        for at, total, count in ((0.0, 1.0, 100.0), (60.0, 1.3, 200.0))
    )
    assert lag_ms(before, after) == pytest.approx(3.0)
    assert lag_ms(after, after) == 0.0
