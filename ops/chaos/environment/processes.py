"""Processes by the kernel's tables, and their names from the metrics page."""

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
_ACTIVE: Final = re.compile(r'^stanchion_role_active\{process="([\w-]+)"\} 1\.0$', re.MULTILINE)
_LEADS = re.compile(r'^stanchion_coordinator_leads\{process="([^"]+)"\} 1\.0$', re.MULTILINE)
_PROCESS = re.compile(r'^stanchion_process_id\{process="([^"]+)"\} (\S+)$', re.MULTILINE)


def pids_by_role(metrics_url: str) -> dict[str, int]:
    """Process ids of the serving roles."""
    with urllib.request.urlopen(metrics_url, timeout=PAGE_SECONDS_MAX) as answer:
        page = answer.read().decode()
    serving = set(_SERVING.findall(page))
    return {name: int(float(pid)) for name, pid in _PROCESS.findall(page) if name in serving}


def leading_coordinator(metrics_url: str) -> str:
    """The name of the coordinator that leads. Raises NotInjectedError without one."""
    with urllib.request.urlopen(metrics_url, timeout=PAGE_SECONDS_MAX) as answer:
        leaders = _LEADS.findall(answer.read().decode())
    if len(leaders) != 1:
        raise NotInjectedError(f"{len(leaders)} coordinators lead")
    return str(leaders[0])


def active_process(metrics_url: str, role: str) -> str:
    """The name of the active process of a role with a warm standby. Raises NotInjectedError without one."""
    with urllib.request.urlopen(metrics_url, timeout=PAGE_SECONDS_MAX) as answer:
        active = _ACTIVE.findall(answer.read().decode())
    found = [name for name in active if name in (role, f"{role}-2")]
    if len(found) != 1:
        raise NotInjectedError(f"{len(found)} processes of {role} are active")
    return str(found[0])


def descendants(root: int) -> list[int]:
    """``root`` and all its descendants."""
    found = [root]
    # The list grows during the loop.
    for pid in found:
        # Children are listed under the thread that forked them.
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def descendants_named(name: str, root: int) -> list[int]:
    """Descendants of ``root`` whose program has this name."""
    found = []
    for pid in descendants(root):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def cpu_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Processor seconds that each existing process has used."""
    used = {}
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def idle_seconds() -> float:
    """Idle processor seconds since the machine started."""
    fields = Path("/proc/stat").read_text().split(maxsplit=6)
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def gone(pid: int) -> bool:
    """Whether a process has ended; zombies count as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def send_signal(number: signal.Signals, pids: Iterable[int]) -> int:
    """Signal each existing process; returns their number."""
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        sent += 1
    return sent


def signal_processes(number: signal.Signals, pids: Iterable[int]) -> None:
    """Signal these processes. Raises NotInjectedError when none of them exists."""
    if not send_signal(number, pids):
        raise NotInjectedError("no process to signal was found")
