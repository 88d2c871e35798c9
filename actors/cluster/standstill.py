"""Processes that stand still, seen from outside: what the kernel of the same machine says of them.

A ping that is not answered may mean a busy process; one that the kernel has stopped, or that has ended,
answers nothing, and that can be seen in microseconds instead of after a silence, or after Ray has got round
to saying so. Where nothing can be seen (another machine, another system than Linux), nothing is claimed.
"""

from __future__ import annotations

import os
import signal
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
    return _whereabouts_of(str(os.getpid()), proc)


def stands_still(where: str, proc: Path = PROC) -> bool:
    """Whether the process of that ``whereabouts`` is seen to be stopped, or to be no more."""
    found = _visible(where, proc)
    if found is None:
        return False
    pid, started = found
    try:
        fields = _fields((proc / str(pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    # Another start is another process: the number has been given away.
    return fields[0] in STILL or fields[19] != started


def end(where: str, proc: Path = PROC) -> bool:
    """SIGKILL the process of that ``whereabouts``, which a stopped process cannot escape. False where it
    cannot be seen from here; true if it was killed or had ended."""
    found = _visible(where, proc)
    if found is None:
        return False
    pid, started = found
    try:
        # The descriptor keeps the number from being given to another process between the look and the kill.
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        if _fields((proc / str(pid) / "stat").read_text())[19] == started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return True


def children(pid: int, proc: Path = PROC) -> list[str]:
    """The ``whereabouts`` of the children of a process of this machine; none where they cannot be seen."""
    found: list[str] = []
    try:
        # A child belongs to the thread that made it.
        for thread in (proc / str(pid) / "task").iterdir():
            found += (thread / "children").read_text().split()
    except OSError:
        pass
    return [where for child in found if (where := _whereabouts_of(child, proc))]


def of(pid: int, proc: Path = PROC) -> str:
    """The ``whereabouts`` of a process of this machine; empty when it cannot be seen."""
    return _whereabouts_of(str(pid), proc)


def _whereabouts_of(pid: str, proc: Path) -> str:
    try:
        return f"{_place(proc)}/{pid}/{_fields((proc / pid / 'stat').read_text())[19]}"
    except OSError:
        return ""


def _visible(where: str, proc: Path) -> tuple[int, str] | None:
    """Process id and tick of the start, of a process that can be seen from here."""
    place, _, started = where.rpartition("/")
    place, _, pid = place.rpartition("/")
    return (int(pid), started) if place and place == _place(proc) else None


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
