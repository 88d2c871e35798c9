"""Processes that stand still, seen from outside: what the kernel of the same machine says of them.

A ping that is not answered may mean a busy process; a process that the kernel has stopped answers nothing,
and that can be seen in microseconds instead of after a silence. Where nothing can be seen (another machine,
another system than Linux), nothing is claimed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
STOPPED: Final = "T"
"""The state of a process that was sent SIGSTOP (proc(5)). One that a debugger holds is ``t``."""


def whereabouts(proc: Path = PROC) -> str:
    """What finds this process again, from a process that sees the same processes: kernel, namespace, id and
    the tick of its start. Empty where there is no such thing."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (proc / "self/ns/pid").readlink()
        started = _fields((proc / "self/stat").read_text())[19]
    except OSError:
        return ""
    return f"{boot}/{namespace}/{os.getpid()}/{started}"


def stands_still(where: str, proc: Path = PROC) -> bool:
    """Whether the process of that ``whereabouts`` is seen to be stopped."""
    place, _, started = where.rpartition("/")
    place, _, pid = place.rpartition("/")
    mine = whereabouts(proc).rpartition("/")[0].rpartition("/")[0]
    if not place or place != mine:
        return False
    try:
        fields = _fields((proc / pid / "stat").read_text())
    except OSError:
        return False
    return (fields[0], fields[19]) == (STOPPED, started)


def _fields(stat: str) -> list[str]:
    """What follows the command, which stands in parentheses and may hold anything."""
    return stat.rpartition(")")[2].split()
