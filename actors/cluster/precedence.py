"""Letting other processes go first, also where Linux weighs sessions instead of processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_ENABLED: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_OWN: Final = Path("/proc/self/autogroup")


def give_way(niceness: int) -> None:
    """Have this process take only the processor time that others leave over (``niceness`` as of nice(1); 0
    changes nothing).

    With autogroups (sched(7)) processor time is divided among sessions first, and niceness counts inside one
    only: servers of databases, whose every process is a session, would not notice it. So the process gets a
    session of its own, and that the niceness.
    """
    if not niceness:
        return
    os.nice(niceness)
    if _autogroups():
        with suppress(OSError):
            _lead_a_session()
            _OWN.write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def _lead_a_session() -> None:
    if os.getsid(0) != os.getpid():
        # The leader of a group, as Ray's workers are, cannot begin a session.
        os.setpgid(0, os.getpgid(os.getppid()))
        os.setsid()


def _autogroups() -> bool:
    with suppress(OSError):
        return _ENABLED.read_text().strip() == "1" and _OWN.exists()
    return False
