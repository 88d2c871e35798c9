"""Python loads this first in every process that has the folder on its path: from then on the process tells
the time that ``ops.chaos.clocks`` has written down for it.

Only the wall clock moves, as it does when somebody sets a machine's clock; ``time.monotonic`` goes on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK_SECONDS = 0.02
NANOSECONDS = 1_000_000_000

_folder = os.environ.get("STANCHION_CHAOS_CLOCKS")
_time_ns = time.time_ns


class _Clock:
    """The real clock and how far it has been moved, in nanoseconds."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._looked = 0.0
        self._moved = 0

    def now_ns(self) -> int:
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._look()
        return _time_ns() + self._moved

    def now(self) -> float:
        return self.now_ns() / NANOSECONDS

    def _look(self) -> None:
        mine = self._folder / str(os.getpid())
        try:
            moved = int(mine.read_text() or "0") * NANOSECONDS
        except (OSError, ValueError):
            moved = 0
        if moved != self._moved:
            self._moved = moved
            mine.with_suffix(".seen").touch()


if _folder:
    _clock = _Clock(_folder)
    time.time_ns = _clock.now_ns
    time.time = _clock.now
