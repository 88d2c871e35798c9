"""Stops a timer of Ray that wakes every process a hundred times a second.

The main thread of a Ray worker waits for calls, and wakes every 10 ms to run Python's signal handlers
(``CoreWorker::RunTaskExecutionLoop``). Ray has no setting for it. In an idle installation these wake-ups take
two fifths of all processor time, and each takes the interpreter's lock from the thread that decides.

The thread waits at an epoll instance, in which one timerfd stands for all timers of that thread; there is no
other. Without the timerfd it sleeps until a call arrives. Python's handler of SIGTERM would then run at the
next call only, so SIGTERM gets its default action again: it ends the process.

If the kernel shows anything other than expected, everything stays as it is.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import signal
from pathlib import Path
from typing import Final

import structlog

PROC: Final = Path("/proc/self")
ATTEMPTS: Final = 10
"""The main thread can be executing a call at the first attempts."""
PAUSE_SECONDS: Final = 1.0
_EPOLL: Final = "anon_inode:[eventpoll]"
_TIMER: Final = "anon_inode:[timerfd]"

_log = structlog.get_logger(__name__)


async def stop_signal_checks(proc: Path = PROC) -> bool:
    """Stop the checks of this worker's main thread; returns whether they have been stopped."""
    for _ in range(ATTEMPTS):
        found = main_timer(proc)
        if found is not None:
            _default_sigterm()
            epoll, timer = found
            # Not closed: both belong to Ray.
            select.epoll.fromfd(os.dup(epoll)).unregister(timer)
            return True
        await asyncio.sleep(PAUSE_SECONDS)
    _log.info("signal_checks_continue")
    return False


def main_timer(proc: Path = PROC) -> tuple[int, int] | None:
    """The descriptors of the epoll instance at which the main thread waits now, and of its only timer.
    ``None`` if the thread does not wait, or the kernel does not show it."""
    try:
        # Number and arguments of the system call in hexadecimal, or "running" (proc(5)).
        call = (proc / "task" / str(os.getpid()) / "syscall").read_text().split()
        epoll = int(call[1], 16)
        if _kind(proc, epoll) != _EPOLL:
            return None
        lines = (proc / "fdinfo" / str(epoll)).read_text().splitlines()
        members = [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
        timers = [member for member in members if _kind(proc, member) == _TIMER]
    except (OSError, ValueError, IndexError):
        return None
    return (epoll, timers[0]) if len(timers) == 1 else None


def _kind(proc: Path, descriptor: int) -> str:
    return os.readlink(proc / "fd" / str(descriptor))  # noqa: PTH115 - Path.readlink would resolve to a Path


def _default_sigterm() -> None:
    """Python sets dispositions in its main thread only, which is Ray's here."""
    set_action = ctypes.CDLL(None).signal
    set_action.argtypes, set_action.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_action(signal.SIGTERM, None)
