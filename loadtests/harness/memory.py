"""The most memory that groups of processes use during a measurement.

Counted is *anonymous* resident memory (``RssAnon`` of proc(5)): heaps and stacks, without files and without
PostgreSQL's shared buffers, which each of its processes would count again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from loadtests.harness.processes import PROC, command_line, tree

SAMPLE_SECONDS: Final = 0.25

Chosen = Callable[[str], bool]
"""Whether a process with this command line belongs to a group."""


def anonymous_bytes(pid: int, proc: Path = PROC) -> int:
    """Anonymous resident memory of one process; zero when it has ended."""
    try:
        text = (proc / str(pid) / "status").read_text("ascii", "replace")
    except OSError:
        return 0
    sizes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")]
    return sum(sizes) * 1024


class MemoryMeter:
    """The largest process of each group among the descendants of ``root``."""

    def __init__(self, root: int, groups: Mapping[str, Chosen], proc: Path = PROC) -> None:
        self._root = root
        self._groups = dict(groups)
        self._proc = proc
        self._ended = threading.Event()
        self.before: dict[str, int] = dict.fromkeys(groups, 0)
        """Bytes at the beginning."""
        self.most: dict[str, int] = dict.fromkeys(groups, 0)
        """The most bytes of any process of the group during the measurement."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure during the block."""
        self.before = self.sample()
        self.most = dict(self.before)
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def sample(self) -> dict[str, int]:
        """The bytes of the largest process of each group."""
        found = dict.fromkeys(self._groups, 0)
        for process in tree(self._root, self._proc):
            command = command_line(process.pid, self._proc)
            for name, chosen in self._groups.items():
                if chosen(command):
                    found[name] = max(found[name], anonymous_bytes(process.pid, self._proc))
        return found

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            for name, size in self.sample().items():
                self.most[name] = max(self.most[name], size)
