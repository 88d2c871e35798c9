"""Local times of filter forms become instants of the API."""

from __future__ import annotations

import pytest

from api.console.time_window import instant_of


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2026-07-01T12:00", "Europe/Dublin", "2026-07-01T11:00:00.000Z"),
        ("2026-01-01T12:00:30", "Europe/Dublin", "2026-01-01T12:00:30.000Z"),
        ("2026-01-01T12:00", "UTC", "2026-01-01T12:00:00.000Z"),
        ("2026-01-01", "Asia/Tokyo", "2025-12-31T15:00:00.000Z"),
        # The hour that the end of summer time repeats.
        ("2026-10-25T01:30", "Europe/Dublin", "2026-10-25T00:30:00.000Z"),
        ("2026-01-01T12:00:00.000Z", "Asia/Tokyo", "2026-01-01T12:00:00.000Z"),
        ("", "UTC", None),
        ("yesterday", "UTC", None),
        ("0001-01-01T00:00", "Asia/Tokyo", None),
    ],
)
def test_local_time_becomes_an_instant(text: str, zone: str, instant: str | None) -> None:
    assert instant_of(text, zone) == instant
