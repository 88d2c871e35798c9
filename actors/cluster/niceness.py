"""The processor share of a process, also where the Linux scheduler weighs sessions (autogroups).

With autogroups (sched(7)), the scheduler divides processor time among sessions first, and nice values count
only inside one session. Every process of a PostgreSQL server is a session. If all processes of an
installation shared one session, a single slow query could take as much time as all of them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENABLED: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_OWN: Final = Path("/proc/self/autogroup")


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
    if _autogroups() and os.getsid(0) == os.getpid():
        with suppress(OSError):
            _OWN.write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def _become_session_leader() -> None:
    if os.getsid(0) != os.getpid():
        # A process group leader, as Ray's workers are, cannot create a session.
        os.setpgid(0, os.getpgid(os.getppid()))
        os.setsid()


def _autogroups() -> bool:
    with suppress(OSError):
        return _ENABLED.read_text().strip() == "1" and _OWN.exists()
    return False
