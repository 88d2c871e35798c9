"""Going behind others: with niceness, and where sessions are weighed, with a session of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
SHOW = """
import os, sys
from pathlib import Path
from actors.cluster.precedence import give_way
if sys.argv[2] == "group":
    os.setpgid(0, 0)  # as Ray begins its workers
elif sys.argv[2] == "session":
    os.setsid()
give_way(int(sys.argv[1]))
own = Path("/proc/self/autogroup")
print(os.nice(0), int(os.getsid(0) == os.getpid()), own.read_text() if own.exists() else "")
"""


def shown(niceness: int, leads: str = "group") -> list[str]:
    """Niceness, whether it leads a session, and its autogroup, of a process that gives way, and that was the
    leader of a group or of a session before."""
    ended = subprocess.run(
        [sys.executable, "-c", SHOW, str(niceness), leads], capture_output=True, text=True, check=True
    )
    return ended.stdout.split(maxsplit=2)


def weighs_sessions() -> bool:
    return AUTOGROUPS.exists() and AUTOGROUPS.read_text().strip() == "1"


def test_it_is_nicer_and_so_is_its_session() -> None:
    before = os.nice(0)
    niceness, leads, *autogroup = shown(3)
    assert int(niceness) == before + 3
    assert leads == str(int(weighs_sessions()))
    if weighs_sessions():
        assert autogroup[0].strip().endswith(f"nice {before + 3}")


def test_who_has_a_session_keeps_it() -> None:
    before = os.nice(0)
    niceness, leads, *autogroup = shown(3, "session")
    assert (int(niceness), leads) == (before + 3, "1")
    if weighs_sessions():
        assert autogroup[0].strip().endswith(f"nice {before + 3}")


def test_who_gives_no_way_stays_where_it_is() -> None:
    niceness, leads, *_ = shown(0)
    assert (int(niceness), leads) == (os.nice(0), "0")
