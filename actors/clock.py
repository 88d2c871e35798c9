"""Clocks as a dependency, so that tests control the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from engine.limits import CLOCK_DRIFT_MAX, CLOCK_START_SECONDS_MAX, CLOCK_STEP_SECONDS_MAX

ROUND_TRIP_SECONDS_MAX: Final = 0.25
"""Readings with a longer round trip are ignored, and steps up to this length are within a reading's error."""


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
    """Wall time of the database, extrapolated between readings by a monotonic clock of this machine.

    All hosts use this one clock for decisions that depend on time (the expiry of a hold, the day of a
    purchase). Call ``set`` before the first use and regularly afterwards; the time never goes back.

    A reading is adopted only within bounds: the first one must agree with this machine's wall clock, every
    later one with the extrapolated time. Otherwise ``refusal`` gives the reason, the reading has no effect,
    and the host must not decide until a later reading is within the bounds. After a restart, the process
    takes a first reading again; by a restart an operator confirms a clock that was corrected by more than the
    bound.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] | None = None,
        machine_ms: Callable[[], int] | None = None,
    ) -> None:
        """``monotonic`` includes the time that the machine is suspended; ``machine_ms`` is its wall clock."""
        self._monotonic = monotonic or _since_boot()
        self._machine_ms = machine_ms or SystemClock().now_ms
        self._ahead_seconds: float | None = None
        """The database's clock minus the monotonic clock."""
        self._latest_ms = 0
        self._allowance_seconds = CLOCK_STEP_SECONDS_MAX
        """Total of the steps that further readings may make."""
        self._read_at = 0.0
        self.refusal: str | None = None
        """Why the last reading was not adopted; ``None`` if it was, or before the first reading."""

    @property
    def trusted(self) -> bool:
        """Whether decisions may be made by this clock."""
        return self.refusal is None and self._ahead_seconds is not None

    def now_ms(self) -> int:
        """Raises ``RuntimeError`` before the first adopted reading."""
        if self._ahead_seconds is None:
            raise RuntimeError("no reading of the database's clock has been adopted")
        now_ms = int(1000 * (self._monotonic() + self._ahead_seconds))
        self._latest_ms = max(self._latest_ms, now_ms)
        return self._latest_ms

    def monotonic(self) -> float:
        return self._monotonic()

    def set(self, database_ms: int, sent: float, received: float) -> None:
        """Take a reading: the database's clock was ``database_ms`` between ``sent`` and ``received``, two
        instants of ``monotonic``. After the first, a reading with a long round trip is ignored."""
        ahead_seconds = database_ms / 1000 - (sent + received) / 2
        if self._ahead_seconds is None:
            self.refusal = self._refuse_first(database_ms)
        elif received - sent > ROUND_TRIP_SECONDS_MAX:
            return
        else:
            self.refusal = self._refuse_step(abs(ahead_seconds - self._ahead_seconds), received)
        if self.refusal is None:
            self._ahead_seconds = ahead_seconds

    def _refuse_first(self, database_ms: int) -> str | None:
        apart_seconds = abs(database_ms - self._machine_ms()) / 1000
        if apart_seconds <= CLOCK_START_SECONDS_MAX:
            return None
        return f"the clocks of the database and of this machine are {apart_seconds:.0f} s apart"

    def _refuse_step(self, step_seconds: float, received: float) -> str | None:
        """Steps within the error of a reading are free. Longer ones use up an allowance that grows back
        slowly, so that many small steps do not add up to a large one."""
        regained = (received - self._read_at) * CLOCK_DRIFT_MAX
        allowance = min(self._allowance_seconds + regained, CLOCK_STEP_SECONDS_MAX)
        self._read_at = received
        if step_seconds <= ROUND_TRIP_SECONDS_MAX:
            self._allowance_seconds = allowance
        elif step_seconds <= allowance:
            self._allowance_seconds = allowance - step_seconds
        else:
            self._allowance_seconds = allowance
            return f"the clock of the database has jumped by {step_seconds:.0f} s"
        return None


def _since_boot() -> Callable[[], float]:
    """A monotonic clock in seconds; on Linux it includes the time that the machine is suspended."""
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot_time is None else partial(time.clock_gettime, boot_time)
