"""An event loop whose clock stops while the test process gets no processor time.

The loop's clock is the real one, except that no callback and no wait can advance it by more than
``STEP_SECONDS`` at once. A pause of the process, or of the whole machine, therefore costs a timer one step at
most, and deadlines expire only when the tested code lets them. ``advance`` moves the clock on purpose, so a
test need not wait for a long deadline.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Final

STEP_SECONDS: Final = 0.01


class _SteadySelector(selectors.DefaultSelector):
    """Waits in steps; ``now`` is the clock of its loop."""

    def __init__(self) -> None:
        super().__init__()
        self._counted = time.monotonic()
        self._seconds = self._counted

    def now(self) -> float:
        return self._seconds + min(time.monotonic() - self._counted, STEP_SECONDS)

    def advance(self, seconds: float) -> None:
        self._seconds += seconds

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._count(STEP_SECONDS)
        until = None if timeout is None else self._seconds + max(timeout, 0.0)
        while True:
            step = STEP_SECONDS if until is None else min(until - self._seconds, STEP_SECONDS)
            ready = super().select(step)
            self._count(step)
            if ready or (until is not None and self._seconds >= until):
                return ready

    def _count(self, most: float) -> None:
        """Advance the clock by the time since the last call, but not by more than ``most``."""
        counted, self._counted = self._counted, time.monotonic()
        self._seconds += min(self._counted - counted, most)


class SteadyLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with a steady clock."""

    def __init__(self) -> None:
        self._steady = _SteadySelector()
        super().__init__(self._steady)

    def time(self) -> float:
        return self._steady.now()

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Timers that are due then run in the next turns of the loop."""
        self._steady.advance(seconds)


def advance(seconds: float) -> None:
    """Move the clock of the running loop forward, as if nothing had happened for ``seconds``. Loops in
    virtual time can do so too."""
    asyncio.get_running_loop().advance(seconds)  # type: ignore[attr-defined]
