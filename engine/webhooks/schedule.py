"""When the attempts of a delivery are due: one at once, then five at offsets from the first (spec 6.1)."""

from __future__ import annotations

from typing import Final

OFFSETS_SECONDS: Final = (0, 60, 300, 1_800, 7_200, 86_400)
"""Seconds from the first attempt to each attempt."""

ATTEMPTS_MAX: Final = len(OFFSETS_SECONDS)


def next_attempt_ms(first_attempt_ms: int, attempts: int) -> int | None:
    """When the attempt after ``attempts`` (one at least) is due, or ``None`` when there is none.

    Offsets count from the first attempt, not from the one before: a slow answer does not push later attempts
    away.
    """
    assert attempts >= 1
    if attempts >= ATTEMPTS_MAX:
        return None
    return first_attempt_ms + OFFSETS_SECONDS[attempts] * 1_000
