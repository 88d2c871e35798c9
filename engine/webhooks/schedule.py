"""The schedule of a delivery's attempts: the first at once, then five at fixed offsets from the first."""

from __future__ import annotations

from typing import Final

OFFSETS_SECONDS: Final = (0, 60, 300, 1_800, 7_200, 86_400)
"""Seconds from the first attempt to each attempt."""

ATTEMPTS_MAX: Final = len(OFFSETS_SECONDS)


def next_attempt_ms(first_attempt_ms: int, attempts: int) -> int | None:
    """The time of the attempt that follows ``attempts`` (at least one), or ``None`` after the last.

    Offsets count from the first attempt, so slow answers do not delay later attempts.
    """
    assert attempts >= 1
    if attempts >= ATTEMPTS_MAX:
        return None
    return first_attempt_ms + OFFSETS_SECONDS[attempts] * 1_000
