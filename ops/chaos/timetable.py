"""The schedule of a run: how long it takes and how often it injects each fault.

With ``--minutes`` a run takes about that long: rounds of faults get half of it; the audit, the cluster and
the suites get the rest, and the remaining time goes to more seeds. One round of everything always completes,
even if it takes longer. ``--long`` counts rounds instead of minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from ops.chaos.faults.fault import Fault
from ops.chaos.faults.idempotency import BURST
from ops.chaos.faults.stand_in import DISTURBANCES

FAULTS_SHARE: Final = 0.5
"""The faults' share of the minutes, if the run has other parts."""
SEEDS_MINUTES_MIN: Final = 0.25
"""Minimum for each suite with seeds, even if the run is late."""

LONG_ROUNDS: Final = 20
"""Rounds in a long run of each fault that ``LONG`` does not name."""
LONG: Final = {
    "kill -9 of a shard host": 200,
    "a shard host frozen, then resumed": 100,
    "kill -9 of all of PostgreSQL": 50,
    "150 keys × 1–8 copies, a host killed": -(-10_000 // BURST),
    "64 stand-ins at once on a budget for 13": -(-500 // len(DISTURBANCES)),
}
"""Rounds of a fault in a long run, by its name."""


class Timetable:
    """Time starts when it is created. ``shared``: whether other parts follow the faults."""

    def __init__(
        self, minutes: float, *, shared: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        began = clock()
        self._faults_end = began + 60 * minutes * (FAULTS_SHARE if shared else 1.0)
        self._end = began + 60 * minutes

    def faults_seconds(self) -> float:
        """The remaining time for faults; 0 or less when it is over."""
        return self._faults_end - self._clock()

    def seeds_minutes(self, suites_left: int) -> float:
        """The time of the next suite, when ``suites_left`` suites with seeds still have to run."""
        return max(SEEDS_MINUTES_MIN, (self._end - self._clock()) / 60 / suites_left)

    def turns(self, faults: Sequence[Fault]) -> Iterator[Fault]:
        """The faults in order, repeated until their time is over; each at least once."""
        for number in count():
            for fault in faults:
                if number and self.faults_seconds() <= 0:
                    return
                yield fault
            if not faults:
                return


def long_turns(faults: Sequence[Fault], times: Mapping[str, int] = LONG) -> Iterator[Fault]:
    """Each fault as often as a long run needs it, spread evenly among the others."""
    wanted = [times.get(fault.name, LONG_ROUNDS) for fault in faults]
    most = max(wanted, default=0)
    for number in range(most):
        for fault, often in zip(faults, wanted, strict=True):
            if (number + 1) * often // most > number * often // most:
                yield fault
