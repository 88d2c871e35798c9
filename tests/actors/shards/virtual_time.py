"""An event loop in which waiting costs nothing: when nobody is ready, time jumps to whoever is next.

Everything else is asyncio's own, so what runs here runs anywhere; but a run depends on nothing outside it,
and one that waits for something that will never happen ends at once.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.engine.build import NOW_MS

T = TypeVar("T")


class StuckError(Exception):
    """Somebody waits for something that nobody will ever do."""


class _Skipping(selectors.SelectSelector):
    """Never sleeps: the time it was to sleep has passed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time`` is virtual seconds since its start."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)
        # After months of virtual seconds, a nanosecond is less than what a float can add.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._skipping.now


class VirtualClock:
    """The clocks of a process in the running virtual loop."""

    def now_ms(self) -> int:
        return NOW_MS + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end in a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
