"""Windows: durations, calendar periods, and the earliest instant that can count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.instant import DAY_MS
from engine.rules.model import CALENDAR_WINDOWS
from engine.rules.windows import duration_ms, earliest_ms, is_window, period_of
from tests.support.engine.build import NOW_MS

MINUTE = 60_000
ZONES = ("UTC", "Europe/Dublin", "America/New_York", "Pacific/Kiritimati")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT10S", 10_000),
        ("PT10M", 10 * MINUTE),
        ("PT24H", DAY_MS),
        ("P1D", DAY_MS),
        ("P1W", 7 * DAY_MS),
        ("P1DT12H30M15S", DAY_MS + 12 * 3_600_000 + 30 * MINUTE + 15_000),
        ("P90D", 90 * DAY_MS),
        ("PT7776000S", 90 * DAY_MS),
        *((text, None) for text in ("PT9S", "P90DT1S", "P", "PT", "P1DT", "P1M", "P1Y", "PT1.5H", "10M")),
        *((text, None) for text in ("-PT10M", "PT10m", "PT10M ", "", "day", "P1D1W", "PT٣M")),
    ],
)
def test_durations(text: str, expected_ms: int | None) -> None:
    assert duration_ms(text) == expected_ms
    assert is_window(text) == (expected_ms is not None or text in CALENDAR_WINDOWS)


@pytest.mark.parametrize(
    ("window", "label"),
    [("day", "2026-11-21"), ("week", "2026-11-16"), ("month", "2026-11"), ("year", "2026"), ("lifetime", "")],
)
def test_periods_at_a_saturday_in_november(window: str, label: str) -> None:
    assert period_of(window, NOW_MS, "UTC") == label
    assert is_window(window)


def test_a_week_begins_on_monday_in_the_zone_of_the_programme() -> None:
    sunday = NOW_MS + 37 * 3_600_000
    assert period_of("week", sunday, "UTC") == "2026-11-16"
    assert period_of("week", sunday, "Europe/Berlin") == "2026-11-23"


@given(
    st.sampled_from((*CALENDAR_WINDOWS, "PT10S", "P90D")),
    st.integers(946_684_800_000, 946_684_800_000 + 60 * 365 * DAY_MS),
    st.integers(0, 400 * DAY_MS),
    st.sampled_from(ZONES),
)
def test_nothing_before_the_earliest_instant_counts(window: str, now_ms: int, ago_ms: int, zone: str) -> None:
    at_ms = now_ms - ago_ms
    if at_ms >= earliest_ms(window, now_ms):
        return
    length_ms = duration_ms(window)
    if length_ms is not None:
        assert at_ms < now_ms - length_ms
    else:
        assert period_of(window, at_ms, zone) < period_of(window, now_ms, zone)
