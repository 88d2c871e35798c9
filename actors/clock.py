"""Time as a dependency, so that tests can hold it still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

ROUND_TRIP_SECONDS_MAX: Final = 0.25
"""The time that the database tells may be half a round trip wrong."""


class Clock(Protocol):
    """``now_ms`` is wall time (milliseconds since the epoch); ``monotonic`` is seconds on a clock that
    never jumps."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class DatabaseClock:
    """Wall time as the database tells it, carried on from one look to the next by the monotonic clock.

    What is decided by time (when a hold expires, which day a purchase counts for) is decided by one clock for
    all hosts, and a machine whose own clock is set wrong, or jumps, changes nothing. ``set`` it before the
    first use and now and then afterwards; it never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._ahead_seconds: float | None = None
        """How much further the database's clock is than the monotonic one."""
        self._latest_ms = 0

    def now_ms(self) -> int:
        """Raises RuntimeError before the first ``set``."""
        if self._ahead_seconds is None:
            raise RuntimeError("nobody has asked the database for the time")
        now_ms = int(1000 * (self._monotonic() + self._ahead_seconds))
        self._latest_ms = max(self._latest_ms, now_ms)
        return self._latest_ms

    def monotonic(self) -> float:
        return self._monotonic()

    def set(self, database_ms: int, asked: float, heard: float) -> None:
        """The database said ``database_ms`` between two instants of ``monotonic``. An answer that was so long
        on its way that it says less than what is known is passed over."""
        if self._ahead_seconds is None or heard - asked <= ROUND_TRIP_SECONDS_MAX:
            self._ahead_seconds = database_ms / 1000 - (asked + heard) / 2
