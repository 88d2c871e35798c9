"""CPU time and memory of processes, read from ``/proc`` (Linux), as the kernel accounts it.

A process tree counts as a whole: the CPU time of its living members, and that of ended members whose parents
have reaped them. Kernel threads (page write-back, network interrupts) count only in
``machine_cpu_seconds``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from loadtests.figures import BACKGROUND

PROC: Final = Path("/proc")
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One process at one instant."""

    pid: int
    parent: int
    own_seconds: float
    """CPU time of its threads."""
    reaped_seconds: float
    """CPU time of the descendants that have ended and were waited for."""

    @property
    def cpu_seconds(self) -> float:
        """Both."""
        return self.own_seconds + self.reaped_seconds


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """``None`` when there is no such process (any more)."""
    try:
        stat = (proc / str(pid) / "stat").read_text("ascii", "replace")
    except OSError:
        return None
    # The command stands in parentheses and may hold anything, parentheses too (proc(5)).
    fields = stat.rpartition(")")[2].split()
    user, system, reaped_user, reaped_system = (int(ticks) / TICKS_PER_SECOND for ticks in fields[11:15])
    return Process(pid, int(fields[1]), user + system, reaped_user + reaped_system)


def tree(root: int, proc: Path = PROC) -> list[Process]:
    """``root`` and all its descendants."""
    children: dict[int, list[Process]] = {}
    members: list[Process] = []
    for entry in proc.iterdir():
        process = read_process(int(entry.name), proc) if entry.name.isdecimal() else None
        if process is not None:
            children.setdefault(process.parent, []).append(process)
            if process.pid == root:
                members.append(process)
    # Grows while it is walked: each member brings its children.
    for member in members:
        members += children.get(member.pid, ())
    return members


def command_line(pid: int, proc: Path = PROC) -> str:
    """The command with its arguments, or the title that the process gave itself; empty when it has ended."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def machine_cpu_seconds(proc: Path = PROC) -> float:
    """All CPU time of the machine that was not idle, kernel threads, interrupts and stolen time included."""
    times = [int(field) for field in (proc / "stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    return (sum(times) - times[3] - times[4]) / TICKS_PER_SECOND


class CpuMeter:
    """CPU time of some processes, in parts. ``begin``, then ``end``."""

    def __init__(
        self,
        roots: Iterable[int],
        labels: Mapping[int, str] | None = None,
        proc: Path = PROC,
    ) -> None:
        """``roots``: process trees to count; ``labels``: parts for processes whose command line does not name
        one."""
        self._roots = tuple(roots)
        self._proc = proc
        self._labels = dict(labels or {})
        self._before: dict[int, Process] = {}

    def begin(self) -> None:
        """Remember what has been used so far."""
        self._before = {process.pid: process for process in self._members()}

    def end(self) -> dict[str, float]:
        """CPU seconds since ``begin`` by part."""
        parts: dict[str, float] = {}
        members = self._members()
        inherited = self._inherited({process.pid for process in members})
        for process in members:
            used = self._used(process, inherited.get(process.pid, 0.0))
            label = self._labels.get(process.pid) or part_of(command_line(process.pid, self._proc))
            parts[label] = parts.get(label, 0.0) + used
        return parts

    def _used(self, process: Process, inherited: float) -> float:
        """CPU seconds since ``begin`` of a process and of those that it has reaped. ``inherited``: what these
        had used before. A parent that ignores SIGCHLD, as Ray's raylet does, gets none of it."""
        before = self._before.get(process.pid, Process(process.pid, process.parent, 0.0, 0.0))
        reaped = process.reaped_seconds - before.reaped_seconds - inherited
        return process.own_seconds - before.own_seconds + max(0.0, reaped)

    def _inherited(self, living: Collection[int]) -> dict[int, float]:
        """CPU seconds at ``begin`` of processes that have ended since then, by their closest living ancestor:
        the kernel adds them to what that has reaped."""
        inherited: dict[int, float] = {}
        for process in self._before.values():
            heir = process
            while heir.pid not in living and heir.parent in self._before:
                heir = self._before[heir.parent]
            if heir is not process:
                inherited[heir.pid] = inherited.get(heir.pid, 0.0) + process.cpu_seconds
        return inherited

    def _members(self) -> list[Process]:
        return [process for root in self._roots for process in tree(root, self._proc)]


def resident_bytes(pids: Iterable[int], proc: Path = PROC) -> int:
    """Resident memory of ``pids``; pages that they share count for each of them."""
    pages = 0
    for pid in pids:
        try:
            pages += int((proc / str(pid) / "statm").read_text("ascii").split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


def pss_bytes(pid: int, proc: Path = PROC) -> int:
    """Proportional set size of one process: its own pages, and its share of pages that others also map. Zero
    when it has ended, or belongs to another user."""
    try:
        text = (proc / str(pid) / "smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    sizes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")]
    return sum(sizes) * 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of ``pids`` so far, without their descendants."""
    return sum(process.cpu_seconds for pid in pids if (process := read_process(pid)) is not None)


def part_of(command: str) -> str:
    """The part of the system that a command line belongs to."""
    for mark, part in _PARTS:
        if mark in command:
            return part
    return "other"


_PARTS: Final = (
    ("postgres: stanchion", "postgres backends"),
    ("postgres", BACKGROUND),
    ("valkey", "redis"),
    ("redis-server", "redis"),
    ("gcs_server", "ray gcs"),
    ("raylet/raylet", "ray raylet"),
    ("ray::Process", "actor"),
    ("ray::", "ray helpers"),
    ("/ray/", "ray helpers"),
)
"""From text in a command line to a part of the system; the first match wins."""
