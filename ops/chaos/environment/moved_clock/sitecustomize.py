"""Python imports this module first in every process that has the folder on its path. It then adds the
process's offset from ``ops.chaos.environment.clocks`` to the wall clock; ``time.monotonic`` is not
changed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

READ_SECONDS = 0.02
NANOSECONDS = 1_000_000_000

_folder = os.environ.get("STANCHION_CHAOS_CLOCKS")
_time_ns = time.time_ns


class _Clock:
    """The real clock plus the process's offset in nanoseconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked = 0.0
        self._moved = 0
        self.begin()

    def begin(self) -> None:
        """Look at the offset of this process from now on. Also called in the copies that fork(2) makes."""
        self._mine = self._folder / str(os.getpid())
        self._looked = 0.0
        with suppress(OSError):
            (self._folder / f"{os.getpid()}.here").touch()

    def now_ns(self) -> int:
        now = time.monotonic()
        if now - self._looked > READ_SECONDS:
            self._looked = now
            try:
                self._moved = int(self._mine.read_text()) * NANOSECONDS
            except (OSError, ValueError):
                self._moved = 0
        return _time_ns() + self._moved

    def now(self) -> float:
        return self.now_ns() / NANOSECONDS


def _install(folder: Path) -> None:
    clock = _Clock(folder)
    time.time_ns = clock.now_ns
    time.time = clock.now
    os.register_at_fork(after_in_child=clock.begin)


if _folder:
    _install(Path(_folder))
