"""Windows of time in requests, half-open: ``[from, to)``."""

from __future__ import annotations

from datetime import datetime, timedelta

from api.http.fields import parse_instant
from api.http.validation import broken


def window_of(from_: str, to: str) -> tuple[datetime, datetime]:
    """Start (inclusive) and end (exclusive) of validated instants."""
    begin, end = parse_instant(from_), parse_instant(to)
    assert begin is not None, "validated"
    assert end is not None, "validated"
    return begin, end


def require_bounded(window: tuple[datetime, datetime], days_max: int) -> None:
    """For validators: refuse an empty window, and one of more than ``days_max`` days."""
    begin, end = window
    if begin >= end:
        raise broken("range", "The window must end after it begins.", at="/to")
    if end - begin > timedelta(days=days_max):
        raise broken("range", f"The window may hold at most {days_max} days.", at="/to")
