"""Processes of this machine, seen through the kernel: identities, states, and kills.

An unanswered ping can mean a busy process. A process that the kernel has stopped, or that has ended, answers
nothing, and the kernel shows that within microseconds; a silence, or Ray's own detection, takes much longer.
Where the kernel shows nothing (another machine, another system than Linux), the functions report nothing.

An *identity* names one process for all processes that see the same process ids: kernel, pid namespace, pid,
and the tick at which the process started. It stays unique when the kernel gives the pid to another process.
"""

from __future__ import annotations

import os
import signal
from functools import lru_cache
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
READ_BYTES: Final = 65_536
"""One read returns a whole file of /proc of this size: a process's state, or the children of one thread."""
HALTED: Final = frozenset("TZX")
"""Process states (proc(5)) after SIGSTOP and after the end. A process held by a debugger has ``t`` and is not
halted."""


def own_identity(proc: Path = PROC) -> str:
    """The identity of this process; empty where the kernel does not show it."""
    return _identity(str(os.getpid()), proc)


def identity_of(pid: int, proc: Path = PROC) -> str:
    """The identity of a process of this machine; empty when it cannot be seen."""
    return _identity(str(pid), proc)


def child_pids(pid: int, proc: Path = PROC) -> list[int]:
    """The process ids of the children of a process of this machine; empty where they cannot be seen."""
    pids: list[str] = []
    folder = f"{proc}/{pid}/task"
    try:
        # The kernel lists a child with the thread that created it.
        for thread in os.listdir(folder):  # noqa: PTH208 - several times as fast
            pids += _read(f"{folder}/{thread}/children").split()
    except OSError:
        pass
    return [int(child) for child in pids]


def is_halted(identity: str, proc: Path = PROC) -> bool:
    """Whether the kernel shows the process as stopped or ended; false where it cannot be seen."""
    visible = _visible(identity, proc)
    if visible is None:
        return False
    pid, started = visible
    try:
        fields = _fields(_stat(pid, proc))
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    # A different start means that another process has the pid now.
    return fields[0] in HALTED or fields[19] != started


def kill_process(identity: str, proc: Path = PROC) -> bool:
    """Send SIGKILL, which also ends a stopped process. Returns false where the process cannot be seen; true
    if it was killed or had ended."""
    visible = _visible(identity, proc)
    if visible is None:
        return False
    pid, started = visible
    try:
        # The descriptor keeps the pid from being reused between the check and the kill.
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        if _fields(_stat(pid, proc))[19] == started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return True


def _identity(pid: str, proc: Path) -> str:
    try:
        return f"{_pid_space(proc)}/{pid}/{_fields(_stat(pid, proc))[19]}"
    except OSError:
        return ""


def _visible(identity: str, proc: Path) -> tuple[int, str] | None:
    """Pid and start tick of a process that this process can see; ``None`` for any other."""
    rest, _, started = identity.rpartition("/")
    space, _, pid = rest.rpartition("/")
    return (int(pid), started) if space and space == _pid_space(proc) else None


@lru_cache(maxsize=1)
def _pid_space(proc: Path) -> str:
    """Kernel and pid namespace of this process. They never change, and hosts are checked many times a
    second."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(proc / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _stat(pid: int | str, proc: Path) -> str:
    return _read(f"{proc}/{pid}/stat")


def _read(path: str) -> str:
    """The text of a file below /proc. Unbuffered: the supervisor reads hundreds of them a second, and an open
    file object costs four times as much."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, READ_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def _fields(stat: str) -> list[str]:
    """The fields after the command, which is in parentheses and may contain any character."""
    return stat.rpartition(")")[2].split()
