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
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
READ_BYTES: Final = 65_536
"""One read returns a whole file of /proc of this size: a process's state, or the children of one thread."""
STAT_BYTES: Final = 1_024
"""More than the state of any process has."""
HALTED: Final = frozenset("TZX")
"""Process states (proc(5)) after SIGSTOP and after the end. A process held by a debugger has ``t`` and is not
halted."""


def own_identity(proc: Path = PROC) -> str:
    """The identity of this process; empty where the kernel does not show it."""
    return _identity(str(os.getpid()), proc)


def identity_of(pid: int, proc: Path = PROC) -> str:
    """The identity of a process of this machine; empty when it cannot be seen."""
    return _identity(str(pid), proc)


def child_pids(pid: int, proc: Path = PROC, *, of_main_thread: bool = False) -> list[int]:
    """The process ids of the children of a process of this machine; empty where they cannot be seen.

    The kernel lists a child with the thread that created it. ``of_main_thread`` costs one read instead of one
    for each thread.
    """
    pids: list[str] = []
    folder = f"{proc}/{pid}/task"
    try:
        for thread in [str(pid)] if of_main_thread else os.listdir(folder):  # noqa: PTH208 - several times as fast
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


class KernelState:
    """The state of one process, for many checks. Its file of /proc stays open: a check costs less than half
    of ``is_halted``. Call ``close`` at the end; it is safe to call twice."""

    def __init__(self, identity: str, proc: Path = PROC) -> None:
        self.identity = identity
        self._proc = proc
        self._descriptor: int | None = None
        if is_halted(identity, proc):
            return
        visible = _visible(identity, proc)
        if visible is not None:
            with suppress(OSError):
                # The kernel does not give an open file to another process that gets the same pid.
                self._descriptor = os.open(f"{proc}/{visible[0]}/stat", os.O_RDONLY | os.O_CLOEXEC)
            if is_halted(identity, proc):
                # It may have ended, and another process may have had the pid when the file was opened.
                self.close()

    def is_halted(self) -> bool:
        """Whether the kernel shows the process as stopped or ended; false where it cannot be seen."""
        if self._descriptor is None:
            return is_halted(self.identity, self._proc)
        try:
            stat = os.pread(self._descriptor, STAT_BYTES, 0).decode(errors="replace")
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _fields(stat)[0] in HALTED

    def close(self) -> None:
        """Close the file. Later checks open it each time."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


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
