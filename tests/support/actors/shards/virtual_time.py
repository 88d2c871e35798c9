"""An event loop in virtual time: when no task is ready, time jumps to the next timer.

The rest of the loop is asyncio's own. A run depends on nothing outside it, and a run that waits for an event
that cannot happen ends at once with ``StuckError``.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.engine.build import NOW_MS

T = TypeVar("T")


class StuckError(Exception):
    """All tasks wait, and there is no timer."""


class _Skipping(selectors.SelectSelector):
    """Advances the virtual time by each timeout and never sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time`` returns virtual seconds since the start of the loop."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)
        # After months of virtual seconds, a float cannot represent a nanosecond more.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._skipping.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward, as if a callback had blocked the loop for ``seconds``."""
        self._skipping.now += seconds


class VirtualClock:
    """The clocks of a process, from the running virtual loop."""

    def now_ms(self) -> int:
        return NOW_MS + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in a new virtual loop; returns its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
