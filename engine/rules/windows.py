"""The windows of velocities: trailing durations and calendar periods of the programme's time zone."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from engine.instant import DAY_MS, day_label
from engine.limits import RULE_WINDOW_SECONDS_MAX, RULE_WINDOW_SECONDS_MIN
from engine.rules.model import CALENDAR_WINDOWS

_DURATION: Final = re.compile(
    r"P(?!$)(?:([0-9]{1,3})W)?(?:([0-9]{1,4})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,5})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,8})S)?)?",
    re.ASCII,
)
_UNIT_SECONDS: Final = (7 * 86_400, 86_400, 3_600, 60, 1)
_LONGEST_DAYS: Final = {"day": 2, "week": 9, "month": 33, "year": 368}
"""Days that the past part of a calendar period has at most, clock changes included."""


@lru_cache(maxsize=1024)
def duration_ms(window: str) -> int | None:
    """The milliseconds of an ISO 8601 duration in weeks, days, hours, minutes and seconds, or ``None`` if it
    is malformed or out of bounds (``PT10S`` to ``P90D``).

    >>> duration_ms("PT10M"), duration_ms("P1M"), duration_ms("PT9S")
    (600000, None, None)
    """
    match = _DURATION.fullmatch(window)
    if match is None:
        return None
    seconds = sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNIT_SECONDS, strict=True))
    return seconds * 1000 if RULE_WINDOW_SECONDS_MIN <= seconds <= RULE_WINDOW_SECONDS_MAX else None


def is_window(window: str) -> bool:
    """Whether ``window`` is a trailing or a calendar window."""
    return window in CALENDAR_WINDOWS or duration_ms(window) is not None


def period_of(window: str, at_ms: int, zone: str) -> str:
    """The label of the period of a calendar window that contains ``at_ms``. Labels of later periods are
    greater."""
    return "" if window == "lifetime" else _period(window, day_label(at_ms, zone))


@lru_cache(maxsize=4096)
def _period(window: str, day: str) -> str:
    if window == "day":
        return day
    if window == "week":
        that = date.fromisoformat(day)
        return (that - timedelta(days=that.weekday())).isoformat()
    return day[:7] if window == "month" else day[:4]


def earliest_ms(window: str, now_ms: int) -> int:
    """An instant that is not after the beginning of ``window`` at ``now_ms``; 0 for the whole past."""
    if window == "lifetime":
        return 0
    length_ms = duration_ms(window)
    return max(0, now_ms - (_LONGEST_DAYS[window] * DAY_MS if length_ms is None else length_ms))
