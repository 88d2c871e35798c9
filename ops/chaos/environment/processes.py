"""Processes as the kernel knows them, and what the metrics page calls them."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ops.chaos.errors import NotInjectedError

PAGE_SECONDS_MAX: Final = 10.0
_SERVING = re.compile(r'^stanchion_process_serving\{process="([^"]+)"\} 1\.0$', re.MULTILINE)
_PROCESS = re.compile(r'^stanchion_process_id\{process="([^"]+)"\} (\S+)$', re.MULTILINE)


def named(metrics_url: str) -> dict[str, int]:
    """Process ids of the roles that serve."""
    with urllib.request.urlopen(metrics_url, timeout=PAGE_SECONDS_MAX) as answer:
        page = answer.read().decode()
    serving = set(_SERVING.findall(page))
    return {name: int(float(pid)) for name, pid in _PROCESS.findall(page) if name in serving}


def descendants(root: int) -> list[int]:
    """``root`` and everything below it."""
    found = [root]
    # Grows while it is walked.
    for pid in found:
        # A child belongs to the thread that made it.
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def called(name: str, root: int) -> list[int]:
    """Those below ``root`` whose program has this name."""
    found = []
    for pid in descendants(root):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def cpu_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Processor time that each process has used, of those that are there."""
    used = {}
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def idle_seconds() -> float:
    """Processor time that nobody has used since the machine started."""
    fields = Path("/proc/stat").read_text().split(maxsplit=6)
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has buried yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def send_signal(number: signal.Signals, pids: Iterable[int]) -> int:
    """Signal each that is still there; how many were."""
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        sent += 1
    return sent


def signal_processes(number: signal.Signals, pids: Iterable[int]) -> None:
    """Signal these. Raises NotInjectedError when none of them is there."""
    if not send_signal(number, pids):
        raise NotInjectedError("there was nobody to signal")
