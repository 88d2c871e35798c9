"""Answers of a link within the last minute, by MTI and response code."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from engine.limits import LINK_RATE_SECONDS

STEP_SECONDS: Final = 5
"""Interval between copies of the counters."""

Answers = Mapping[tuple[str, str], int]


class Rates:
    """Copies of counters that only rise, one every ``STEP_SECONDS``. Instants are seconds of one clock."""

    def __init__(self, now: float) -> None:
        """``now``: the instant at which all counters are 0."""
        self._copies: deque[tuple[float, Answers]] = deque(maxlen=LINK_RATE_SECONDS // STEP_SECONDS + 1)
        self._copies.append((now, {}))

    def note(self, now: float, answers: Answers) -> None:
        """Keep a copy of ``answers``, unless the last one is recent."""
        if now - self._copies[-1][0] >= STEP_SECONDS:
            self._copies.append((now, dict(answers)))

    def recent(self, now: float, answers: Answers) -> dict[tuple[str, str], int]:
        """The growth of ``answers`` within about ``LINK_RATE_SECONDS``, without kinds that did not grow."""
        before: Answers = {}
        for at, copy in self._copies:
            if now - at <= LINK_RATE_SECONDS:
                before = copy
                break
        return {
            kind: count - before.get(kind, 0)
            for kind, count in answers.items()
            if count > before.get(kind, 0)
        }
