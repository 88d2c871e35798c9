"""Instants and days.

An instant is an integer of milliseconds since the Unix epoch. A *day label* (``YYYY-MM-DD``) names a day in a
programme's time zone. Days are compared by label and not by duration, because a day with a clock change has
23 or 25 hours.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS = tuple(f".{millis:03d}Z" for millis in range(1000))


def to_datetime(at_ms: int) -> datetime:
    """An aware UTC ``datetime`` of ``at_ms``, exact to the millisecond."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def to_ms(at: datetime) -> int:
    """Milliseconds since the epoch of an aware ``datetime``, rounded down."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=4096)
def _second_text(at_s: int) -> str:
    return (_EPOCH + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%S")


def to_text(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds and ``Z``, the form of every timestamp on the API."""
    return f"{_second_text(at_ms // 1000)}{_MILLIS[at_ms % 1000]}"


# Entries of zone databases that are not places: the machine's own zone, default rules, a placeholder, and
# copies of the database with other conventions.
_NOT_A_ZONE = re.compile(r"(?:localtime|posixrules|Factory)$|(?:posix|right|SystemV)/")


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo:
    """The time zone with an IANA name. Raises ``ZoneInfoNotFoundError``."""
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """The IANA names that a programme may have."""
    return frozenset(name for name in available_timezones() if not _NOT_A_ZONE.match(name))


@lru_cache(maxsize=4096)
def _quarter_hour_label(quarter: int, zone_name: str) -> str:
    return to_datetime(quarter * 900_000).astimezone(zone(zone_name)).strftime("%Y-%m-%d")


def day_label(at_ms: int, zone_name: str) -> str:
    """The day in ``zone_name`` that contains ``at_ms``.

    Since 1980 every zone's offset has been a whole number of quarter hours, so midnights fall on quarter
    hours and the label of the quarter is the label of the instant.
    """
    return _quarter_hour_label(at_ms // 900_000, zone_name)


@lru_cache(maxsize=4096)
def day_end_ms(label: str, zone_name: str) -> int:
    """The first instant after the day ``label`` in ``zone_name``."""
    following = date.fromisoformat(label) + timedelta(days=1)
    return to_ms(datetime.combine(following, time(), zone(zone_name)))
