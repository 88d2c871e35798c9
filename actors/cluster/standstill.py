"""Processes that stand still, seen from outside: what the kernel of the same machine says of them.

A ping that is not answered may mean a busy process; one that the kernel has stopped, or that has ended,
answers nothing, and that can be seen in microseconds instead of after a silence, or after Ray has got round
to saying so. Where nothing can be seen (another machine, another system than Linux), nothing is claimed.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
STILL: Final = frozenset("TZX")
"""States of a process (proc(5)) that was sent SIGSTOP, and of one that has ended. What a debugger holds is
``t`` and not among them."""


def whereabouts(proc: Path = PROC) -> str:
    """What finds this process again, from a process that sees the same processes: kernel, namespace, id and
    the tick of its start. Empty where there is no such thing."""
    try:
        started = _fields((proc / "self/stat").read_text())[19]
    except OSError:
        return ""
    return f"{_place(proc)}/{os.getpid()}/{started}"


def stands_still(where: str, proc: Path = PROC) -> bool:
    """Whether the process of that ``whereabouts`` is seen to be stopped, or to be no more."""
    place, _, started = where.rpartition("/")
    place, _, pid = place.rpartition("/")
    if not place or place != _place(proc):
        return False
    try:
        fields = _fields((proc / pid / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    # Another start is another process: the number has been given away.
    return fields[0] in STILL or fields[19] != started


@lru_cache(maxsize=1)
def _place(proc: Path) -> str:
    """Which processes are seen from here. It never changes, and hosts are looked at many times a second."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(proc / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _fields(stat: str) -> list[str]:
    """What follows the command, which stands in parentheses and may hold anything."""
    return stat.rpartition(")")[2].split()
