"""``stanchion events resend``: deliver past events to one endpoint again, for a receiver that was down."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from stanchion import Client

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGE: Final = re.compile(r"([0-9]{1,6})([smhd])")


class ResendError(Exception):
    """The arguments are invalid. The message is one line."""


def instant_of(text: str, now: datetime) -> str:
    """The instant of ``text``: an age (``30m``, ``2h``, ``3d``) or ISO 8601 with an offset. Raises
    ResendError."""
    at = _instant(text, now)
    if at is None or at.tzinfo is None:
        raise ResendError("give an age like 30m, 2h or 3d, or an instant like 2026-11-21T10:15:30Z")
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def resend(
    client: Client,
    endpoint_id: str,
    *,
    since: str,
    until: str | None = None,
    types: Sequence[str] = (),
    on_event: Callable[[str], None] = lambda _: None,
) -> int:
    """Redeliver every event of the window to the endpoint; returns their number. ``on_event`` gets a line for
    each.

    Raises StanchionError.
    """
    number = 0
    for event in client.events.list(types=types, from_=since, to=until):
        client.events.redeliver(event["id"], endpoint_id=endpoint_id)
        on_event(f"{event['created_at']}  {event['type']}  {event['id']}")
        number += 1
    return number


def _instant(text: str, now: datetime) -> datetime | None:
    age = _AGE.fullmatch(text)
    try:
        if age is not None:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
