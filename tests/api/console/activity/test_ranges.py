"""The slots of time ranges, in the clocks of a time zone."""

from __future__ import annotations

import pytest

from api.console.activity.ranges import RANGES, window_of
from api.http.fields import parse_instant
from engine.instant import to_ms


def seconds(text: str) -> int:
    instant = parse_instant(text)
    assert instant is not None
    return to_ms(instant) // 1000


@pytest.mark.parametrize("name", RANGES)
def test_slots_cover_the_range_and_the_last_one_contains_the_present(name: str) -> None:
    now = seconds("2026-11-21T10:15:30Z")
    window = window_of(RANGES[name], now * 1000, "UTC")
    assert window.slots[-1] <= now < window.end
    assert len(window.slots) * window.slot_seconds == RANGES[name].seconds
    assert 10 <= len(window.slots) <= 120
    assert all(window.slot_of(begin) == begin for begin in window.slots)


@pytest.mark.parametrize(
    ("zone", "midnight"),
    [
        ("UTC", "2026-11-21T00:00:00Z"),
        ("Europe/Berlin", "2026-11-20T23:00:00Z"),
        ("Asia/Kathmandu", "2026-11-20T18:15:00Z"),
        ("America/St_Johns", "2026-11-21T03:30:00Z"),
    ],
)
def test_slots_of_a_day_begin_at_midnight_of_the_zone(zone: str, midnight: str) -> None:
    window = window_of(RANGES["90d"], seconds("2026-11-21T10:15:30Z") * 1000, zone)
    assert window.slots[-1] == seconds(midnight)
