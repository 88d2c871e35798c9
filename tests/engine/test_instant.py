"""Instants and days, including days with a clock change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.instant import DAY_MS, day_end_ms, day_label, to_datetime, to_ms, to_text, zone_names

HOUR_MS = 3_600_000
instants = st.integers(to_ms(datetime(1980, 1, 1, tzinfo=UTC)), to_ms(datetime(2100, 1, 1, tzinfo=UTC)))


def ms(text: str) -> int:
    return to_ms(datetime.fromisoformat(text))


@given(instants)
def test_instant_survives_conversion(at_ms: int) -> None:
    assert to_ms(to_datetime(at_ms)) == at_ms
    assert to_ms(datetime.fromisoformat(to_text(at_ms))) == at_ms


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1_795_255_200_007, "2026-11-21T10:00:00.007Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_text_is_iso_8601_with_milliseconds(at_ms: int, text: str) -> None:
    assert to_text(at_ms) == text


def test_microseconds_are_rounded_down() -> None:
    assert to_ms(datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)) % 1000 == 999
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


@given(instants, st.sampled_from(sorted(zone_names())))
def test_day_label_is_the_local_date(at_ms: int, zone_name: str) -> None:
    wall = to_datetime(at_ms).astimezone(ZoneInfo(zone_name))
    assert day_label(at_ms, zone_name) == wall.strftime("%Y-%m-%d")


@pytest.mark.parametrize(
    ("zone_name", "day", "hours"),
    [
        ("UTC", "2026-03-29", 24),
        ("Europe/Dublin", "2026-03-28", 24),
        ("Europe/Dublin", "2026-03-29", 23),
        ("Europe/Dublin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Asia/Beirut", "2026-03-29", 23),
        ("Asia/Kathmandu", "2026-03-29", 24),
        ("Pacific/Kiritimati", "2026-03-29", 24),
    ],
)
def test_length_of_days_with_clock_changes(zone_name: str, day: str, hours: float) -> None:
    start = ms(f"{day}T00:00:00+00:00") - 16 * HOUR_MS
    quarters = [
        at_ms
        for at_ms in range(start, start + 60 * HOUR_MS, HOUR_MS // 4)
        if day_label(at_ms, zone_name) == day
    ]
    assert len(quarters) / 4 == hours
    assert quarters[-1] - quarters[0] == (len(quarters) - 1) * HOUR_MS // 4, "in one piece"


@pytest.mark.parametrize("zone_name", ["UTC", "Europe/Dublin", "America/New_York", "Pacific/Apia"])
def test_day_labels_never_go_back(zone_name: str) -> None:
    at = ms("2026-01-01T00:00:00+00:00")
    labels = [day_label(at + hour * HOUR_MS // 2, zone_name) for hour in range(2 * 24 * 366)]
    assert labels == sorted(labels)


def test_day_changes_at_midnight() -> None:
    midnight = ms("2026-10-25T23:00:00+00:00") + HOUR_MS
    assert midnight == ms("2026-10-26T00:00:00+00:00")
    assert day_label(midnight - 1, "Europe/Dublin") == "2026-10-25"
    assert day_label(midnight, "Europe/Dublin") == "2026-10-26"
    assert timedelta(milliseconds=DAY_MS) == timedelta(days=1)


@pytest.mark.parametrize(
    "zone_name", ["UTC", "Europe/Dublin", "America/New_York", "Asia/Beirut", "Australia/Lord_Howe"]
)
def test_day_ends_where_the_next_label_begins(zone_name: str) -> None:
    at = ms("2026-01-01T12:00:00+00:00")
    for label in {day_label(at + day * DAY_MS, zone_name) for day in range(366)}:
        end_ms = day_end_ms(label, zone_name)
        assert day_label(end_ms - 1, zone_name) == label < day_label(end_ms, zone_name)


def test_zone_names_are_iana_places() -> None:
    assert {"UTC", "Europe/Dublin", "America/New_York", "Asia/Kathmandu"} <= zone_names()
    assert "Mars/Olympus" not in zone_names()
