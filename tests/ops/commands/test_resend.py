"""Redelivery of past events to one endpoint."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ops.commands.resend import ResendError, instant_of

NOW = datetime(2026, 11, 21, 10, 15, 30, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30s", "2026-11-21T10:15:00.123Z"),
        ("30m", "2026-11-21T09:45:30.123Z"),
        ("2h", "2026-11-21T08:15:30.123Z"),
        ("3d", "2026-11-18T10:15:30.123Z"),
        ("2026-11-21T12:00:00+02:00", "2026-11-21T10:00:00.000Z"),
        ("2026-11-20T00:00:00Z", "2026-11-20T00:00:00.000Z"),
    ],
)
def test_ages_and_instants(text: str, instant: str) -> None:
    assert instant_of(text, NOW) == instant


@pytest.mark.parametrize("text", ["", "2", "h", "-2h", "2w", "999999d", "yesterday", "2026-11-21T10:00:00"])
def test_invalid_instants_are_refused(text: str) -> None:
    with pytest.raises(ResendError, match="give an age"):
        instant_of(text, NOW)
