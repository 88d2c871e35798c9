"""Lower the processor priority of a process, also where the Linux scheduler weighs sessions (autogroups)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENABLED: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_OWN: Final = Path("/proc/self/autogroup")


def apply_niceness(niceness: int) -> None:
    """Add ``niceness`` to the nice value of this process (nice(1)); 0 changes nothing.

    With autogroups (sched(7)), the scheduler divides processor time among sessions first, and nice values
    count only inside one session. A database server, each of whose processes is a session, would not benefit.
    The process therefore becomes leader of a new session, and that session gets the same nice value.
    """
    if not niceness:
        return
    os.nice(niceness)
    if _autogroups():
        with suppress(OSError):
            _become_session_leader()
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
