"""Niceness of a process, and of its session where Linux weighs sessions (autogroups)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
_APPLY = """
import os, sys
from pathlib import Path
from actors.cluster.niceness import apply_niceness, take_own_share
if sys.argv[2] == "group":
    os.setpgid(0, 0)  # as Ray starts its workers
elif sys.argv[2] == "session":
    os.setsid()
take_own_share()
apply_niceness(int(sys.argv[1]))
own = Path("/proc/self/autogroup")
print(os.nice(0), int(os.getsid(0) == os.getpid()), own.read_text() if own.exists() else "")
"""


def applied(niceness: int, leader_of: str = "group") -> list[str]:
    """Apply ``niceness`` in a new process that leads a group or a session; returns its nice value, whether it
    leads a session afterwards, and its autogroup."""
    ended = subprocess.run(
        [sys.executable, "-c", _APPLY, str(niceness), leader_of], capture_output=True, text=True, check=True
    )
    return ended.stdout.split(maxsplit=2)


def has_autogroups() -> bool:
    return AUTOGROUPS.exists() and AUTOGROUPS.read_text().strip() == "1"


def test_process_and_its_new_session_get_the_niceness() -> None:
    before = os.nice(0)
    niceness, leads, *autogroup = applied(3)
    assert int(niceness) == min(19, before + 3)
    assert leads == str(int(has_autogroups()))
    if has_autogroups():
        assert autogroup[0].strip().endswith(f"nice {min(19, before + 3)}")


def test_session_leader_keeps_its_session() -> None:
    before = os.nice(0)
    niceness, leads, *autogroup = applied(3, "session")
    assert (int(niceness), leads) == (min(19, before + 3), "1")
    if has_autogroups():
        assert autogroup[0].strip().endswith(f"nice {min(19, before + 3)}")


def test_process_without_niceness_has_a_session_of_its_own() -> None:
    niceness, leads, *_ = applied(0)
    assert (int(niceness), leads) == (os.nice(0), str(int(has_autogroups())))
