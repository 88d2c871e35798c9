"""Dates of a machine-readable zone: six digits without a century (ICAO Doc 9303-3, section 4.8)."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_DIGITS: Final = re.compile(r"[0-9]{6}")
_PARTIAL: Final = re.compile(r"([0-9]{2}|<<)([0-9]{2}|<<)([0-9]{2}|<<)")
_WINDOW_YEARS: Final = 50


def is_date_text(text: str, *, partial: bool) -> bool:
    """Whether ``text`` can be a date; with ``partial``, ``<<`` is an unknown year, month or day."""
    if _DIGITS.fullmatch(text):
        # Every day of 19YY exists in 20YY: of 1900 and 2000 only 2000 has a leap day.
        return _date(2000 + int(text[:2]), text) is not None
    match = _PARTIAL.fullmatch(text) if partial else None
    if match is None:
        return False
    _, month, day = match.groups()
    return (month == "<<" or 1 <= int(month) <= 12) and (day == "<<" or 1 <= int(day) <= 31)


def birth_date(text: str, today: date) -> date | None:
    """The date of birth: the latest possible date up to ``today``; ``None`` when a part is unknown."""
    if not _DIGITS.fullmatch(text):
        return None
    century = today.year - today.year % 100
    candidates = (_date(base + int(text[:2]), text) for base in (century, century - 100))
    return next((born for born in candidates if born is not None and born <= today), None)


def expiry_date(text: str, today: date) -> date | None:
    """The date of expiry: the possible date whose year is nearest to today's."""
    century = today.year - today.year % 100
    years = (base + int(text[:2]) for base in (century - 100, century, century + 100))
    year = next(year for year in years if -_WINDOW_YEARS <= year - today.year < _WINDOW_YEARS)
    return _date(year, text)


def _date(year: int, text: str) -> date | None:
    try:
        return date(year, int(text[2:4]), int(text[4:6]))
    except ValueError:
        return None
