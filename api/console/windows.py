"""Windows of days in forms: from the first day to the last one, both included, in the session's time zone."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from engine.instant import to_datetime, to_ms, to_text, zone


def day_window(zone_name: str, first_day: str, last_day: str) -> dict[str, str]:
    """The API's members ``from`` and ``to`` of two days (``YYYY-MM-DD``). A day that is missing or malformed
    leaves its member out.

    >>> day_window("Europe/Dublin", "2026-07-01", "2026-07-01")
    {'from': '2026-06-30T23:00:00.000Z', 'to': '2026-07-01T23:00:00.000Z'}
    """
    window = {}
    for name, given, added in (("from", first_day, 0), ("to", last_day, 1)):
        try:
            day = date.fromisoformat(given.strip()) + timedelta(days=added)
            window[name] = to_text(to_ms(datetime.combine(day, time(), zone(zone_name))))
        except (ValueError, OverflowError):
            continue
    return window


def days_ago(zone_name: str, now_ms: int, days: int) -> str:
    """The day that was ``days`` days before ``now_ms``."""
    today = to_datetime(now_ms).astimezone(zone(zone_name)).date()
    return (today - timedelta(days=days)).isoformat()


def day_of(zone_name: str, instant: str) -> str:
    """The day of an instant of the API.

    >>> day_of("Europe/Dublin", "2026-06-30T23:00:00.000Z")
    '2026-07-01'
    """
    return datetime.fromisoformat(instant).astimezone(zone(zone_name)).date().isoformat()


def last_instant(end: str) -> str:
    """The last instant before ``end``, which is in the last day of a window.

    >>> last_instant("2026-07-02T00:00:00.000Z")
    '2026-07-01T23:59:59.999Z'
    """
    return to_text(to_ms(datetime.fromisoformat(end)) - 1)
