"""The processor share of a process, also where the Linux scheduler weighs sessions (autogroups).

With autogroups (sched(7)), the scheduler divides processor time among sessions first, and nice values count
only inside one session. Every process of a PostgreSQL server is a session. If all processes of an
installation shared one session, a single slow query could take as much time as all of them.

A backend of PostgreSQL works for one process of the installation, and gets the niceness of that process:
otherwise the queries of an API server would take as much time as the commits of decisions.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENABLED: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_PROCESSES: Final = Path("/proc")
_AGAIN_SECONDS: Final = 0.15
"""Linux lets unprivileged processes change one session in 0.1 s, on the whole machine."""
_AGAIN_MAX: Final = 100


def take_own_share() -> None:
    """Make this process the leader of a new session where sessions are weighed, so that it is scheduled by
    its own needs."""
    if _autogroups():
        with suppress(OSError):
            _become_session_leader()


def apply_niceness(niceness: int) -> None:
    """Add ``niceness`` to the nice value of this process (nice(1)) and give its session the same value; 0
    changes nothing. Call ``take_own_share`` before."""
    if not niceness:
        return
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        _weigh_session(os.getpid(), os.getpriority(os.PRIO_PROCESS, 0))


def share_niceness(backend: int, client_port: int | None) -> None:
    """Give the process ``backend`` of PostgreSQL the niceness of this process, unless its own is higher.

    ``client_port`` is the port of the connection as the server sees it, ``None`` for a Unix socket. The title
    of the backend contains it. Nothing happens if the server runs on another machine or, without the
    privilege to change its processes, as another user.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    mark = "[local]" if client_port is None else f"({client_port})"
    with suppress(OSError):
        title = (_PROCESSES / str(backend) / "cmdline").read_bytes()
        is_backend = title.startswith(b"postgres: ") and mark.encode() in title
        if is_backend and os.getpriority(os.PRIO_PROCESS, backend) < niceness:
            os.setpriority(os.PRIO_PROCESS, backend, niceness)
            _weigh_session(backend, niceness)


def _become_session_leader() -> None:
    if os.getsid(0) != os.getpid():
        # A process group leader, as Ray's workers are, cannot create a session.
        os.setpgid(0, os.getpgid(os.getppid()))
        os.setsid()


def _weigh_session(pid: int, niceness: int) -> None:
    """Give the session that process ``pid`` leads this niceness; a thread repeats it while Linux refuses
    because another session has just been changed."""
    if _autogroups() and not _set_weight(pid, niceness):
        threading.Thread(target=_set_weight_later, args=(pid, niceness), daemon=True).start()


def _set_weight_later(pid: int, niceness: int) -> None:
    for _ in range(_AGAIN_MAX):
        time.sleep(_AGAIN_SECONDS)
        if _set_weight(pid, niceness):
            return


def _set_weight(pid: int, niceness: int) -> bool:
    """Whether no further attempt is useful."""
    try:
        (_PROCESSES / str(pid) / "autogroup").write_text(str(niceness))
    except OSError as refusal:
        return refusal.errno != errno.EAGAIN
    return True


def _autogroups() -> bool:
    with suppress(OSError):
        return _ENABLED.read_text().strip() == "1" and Path("/proc/self/autogroup").exists()
    return False
