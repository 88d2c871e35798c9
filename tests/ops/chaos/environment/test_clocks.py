"""A patched process reads the offset written for it; other processes keep the real time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from ops.chaos.environment.clocks import MovedClocks

DAY = 86_400
SAY = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.time_ns(), time.monotonic(), flush=True)"


SAY_IN_A_COPY = f"""
import os, sys
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
print(os.getpid(), flush=True)
{SAY}
"""


class Process:
    """A process that prints its clocks on request."""

    def __init__(self, environment: dict[str, str], program: str = SAY) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def copy_pid(self) -> int:
        """The process id that a copy prints first."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def days_off(self) -> tuple[float, ...]:
        """The offsets of its clocks from this process's."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds, nanoseconds, monotonic = self._process.stdout.readline().split()
        now = time.time()
        off = (float(seconds) - now, int(nanoseconds) / 1e9 - now, float(monotonic) - time.monotonic())
        return tuple(round(each / DAY, 1) for each in off)

    def until(self, *expected: float) -> None:
        deadline = time.monotonic() + 30
        while self.days_off() != expected:
            assert time.monotonic() < deadline, self.days_off()

    def end(self) -> None:
        self._process.communicate()


def test_a_clock_is_moved_and_restored(tmp_path: Path) -> None:
    clocks = MovedClocks(tmp_path / "clocks")
    process = Process(clocks.environment())
    try:
        process.until(0, 0, 0)
        assert clocks.move(process.pid, 8 * DAY)
        process.until(8, 8, 0)
        assert clocks.move(process.pid, -DAY)
        process.until(-1, -1, 0)
        assert clocks.move(process.pid, 0)
        process.until(0, 0, 0)
    finally:
        process.end()


def test_an_unpatched_process_has_no_movable_clock(tmp_path: Path) -> None:
    clocks = MovedClocks(tmp_path / "clocks")
    clocks.environment()
    process = Process({})
    try:
        process.until(0, 0, 0)
        assert not clocks.move(process.pid, 8 * DAY)
        process.until(0, 0, 0)
    finally:
        process.end()


def test_a_copy_of_a_process_has_a_clock_of_its_own(tmp_path: Path) -> None:
    """The processes of an installation are copies of its fork server."""
    clocks = MovedClocks(tmp_path / "clocks")
    process = Process(clocks.environment(), SAY_IN_A_COPY)
    try:
        assert clocks.move(process.copy_pid(), 8 * DAY)
        process.until(8, 8, 0)
    finally:
        process.end()
