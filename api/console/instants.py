"""Instants that people enter and read, in the time zone of their session."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo


def entered_instant(text: str | None, zone: str) -> str | None:
    """The instant of a ``datetime-local`` field in ``zone``, with its offset; an instant with an offset as it
    is. Texts that are neither stay as they are, for the API to refuse; empty ones are ``None``."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))).isoformat()


def field_value(instant: str | None, zone: str) -> str:
    """The value of a ``datetime-local`` field for ``instant`` in ``zone``; empty without an instant."""
    if not instant:
        return ""
    try:
        at = datetime.fromisoformat(instant)
    except ValueError:
        return ""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")
