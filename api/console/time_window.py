"""The fields `from` and `to` of a filter form: local times of the session's zone, as instants of the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from api.console.view import View


class TimeWindow(NamedTuple):
    """A half-open window of time, for the form and for the API."""

    from_text: str
    """As the form field has it, such as ``2026-11-21T10:15``."""
    to_text: str
    from_: str | None
    """The instant for the API, or ``None`` if the field is empty or no local time."""
    to: str | None

    @property
    def query(self) -> dict[str, str | None]:
        """The parameters of an operation that can be narrowed to a window."""
        return {"from": self.from_, "to": self.to}


def window_of(view: View) -> TimeWindow:
    """The window that the page's query names."""
    given = view.request.query_params
    begin, end = given.get("from", ""), given.get("to", "")
    return TimeWindow(begin, end, instant_of(begin, view.zone), instant_of(end, view.zone))


def instant_of(text: str, zone: str) -> str | None:
    """The instant of a local time in an IANA zone; ``None`` if ``text`` is none. A time that a change of the
    clocks repeats is the first of the two."""
    try:
        local = datetime.fromisoformat(text)
        # Near year 1 and year 9999, an offset leads out of the range of datetime.
        at = (local if local.tzinfo else local.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
