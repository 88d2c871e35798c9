"""How long a run goes on, and how often each fault is injected.

Whoever says how many minutes there are gets a run of about that length: half of them for rounds of faults,
and what the books, the cluster and the suites leave for more seeds. Nothing is left out for want of time: one
round of everything is always done, however long that takes. ``--long`` counts instead of looking at the
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from ops.chaos.faults.fault import Fault
from ops.chaos.faults.idempotency import BURST
from ops.chaos.faults.stand_in import MEANWHILE

FAULTS_SHARE: Final = 0.5
"""Of the minutes, where there is more to do than faults."""
SEEDS_MINUTES_MIN: Final = 0.25
"""For each suite that takes seeds, however late it is."""

LONG_ROUNDS: Final = 20
"""Of each fault that ``LONG`` does not name."""
LONG: Final = {
    "kill -9 of a shard host": 200,
    "a shard host frozen and woken": 100,
    "kill -9 of all of PostgreSQL": 50,
    "150 keys × 1–8 copies, a host killed": -(-10_000 // BURST),
    "64 stand-ins at once on a budget for 13": -(-500 // len(MEANWHILE)),
}
"""How often a long run injects a fault, by its name."""


class Timetable:
    """Begins when it is made. ``shared``: whether other parts come after the faults."""

    def __init__(
        self, minutes: float, *, shared: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        began = clock()
        self._faults_end = began + 60 * minutes * (FAULTS_SHARE if shared else 1.0)
        self._end = began + 60 * minutes

    def faults_seconds(self) -> float:
        """How long faults are still injected; not above 0 when that is over."""
        return self._faults_end - self._clock()

    def seeds_minutes(self, suites_left: int) -> float:
        """How long the next of so many suites that take seeds may try them."""
        return max(SEEDS_MINUTES_MIN, (self._end - self._clock()) / 60 / suites_left)

    def turns(self, faults: Sequence[Fault]) -> Iterator[Fault]:
        """Faults in their order, again and again until their time is over; each at least once."""
        for number in count():
            for fault in faults:
                if number and self.faults_seconds() <= 0:
                    return
                yield fault
            if not faults:
                return


def long_turns(faults: Sequence[Fault], times: Mapping[str, int] = LONG) -> Iterator[Fault]:
    """Each fault as often as a long run wants it, spread evenly among the others."""
    wanted = [times.get(fault.name, LONG_ROUNDS) for fault in faults]
    most = max(wanted, default=0)
    for number in range(most):
        for fault, often in zip(faults, wanted, strict=True):
            if (number + 1) * often // most > number * often // most:
                yield fault
