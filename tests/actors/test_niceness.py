"""Niceness of a process, and of its session where Linux weighs sessions (autogroups)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actors import niceness
from actors.niceness import share_niceness

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
_APPLY = """
import os, sys
from pathlib import Path
from actors.niceness import apply_niceness, take_own_share
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
    value, leads, *autogroup = applied(3)
    assert int(value) == min(19, before + 3)
    assert leads == str(int(has_autogroups()))
    if has_autogroups():
        assert autogroup[0].strip().endswith(f"nice {min(19, before + 3)}")


def test_session_leader_keeps_its_session() -> None:
    before = os.nice(0)
    value, leads, *autogroup = applied(3, "session")
    assert (int(value), leads) == (min(19, before + 3), "1")
    if has_autogroups():
        assert autogroup[0].strip().endswith(f"nice {min(19, before + 3)}")


def test_process_without_niceness_has_a_session_of_its_own() -> None:
    value, leads, *_ = applied(0)
    assert (int(value), leads) == (os.nice(0), str(int(has_autogroups())))


_SHARE = """
import os, subprocess, sys
from pathlib import Path
from actors.niceness import share_niceness
backend = subprocess.Popen(
    ["bash", "-c", f"exec -a '{sys.argv[1]}' sleep 60"], start_new_session=True, stdout=subprocess.DEVNULL
)
while not Path(f"/proc/{backend.pid}/cmdline").read_bytes().startswith(sys.argv[1].encode()):
    pass  # bash has not replaced itself yet
os.nice(3)
share_niceness(backend.pid, int(sys.argv[2]) if sys.argv[2] else None)
autogroup = Path(f"/proc/{backend.pid}/autogroup")
print(os.getpriority(os.PRIO_PROCESS, backend.pid), autogroup.read_text() if autogroup.exists() else "")
backend.kill()
"""


def shared(title: str, port: str) -> list[str]:
    """The nice value and the autogroup of a process with ``title`` after a process with three more has shared
    its niceness with it."""
    ended = subprocess.run(
        [sys.executable, "-c", _SHARE, title, port], capture_output=True, text=True, check=True
    )
    return ended.stdout.split(maxsplit=1)


@pytest.mark.parametrize(
    ("title", "port"),
    [
        ("postgres: stanchion stanchion 127.0.0.1(40123) idle", "40123"),
        ("postgres: main: stanchion stanchion ::1(40123) idle", "40123"),
        ("postgres: stanchion stanchion [local] idle", ""),
    ],
)
def test_backend_gets_the_niceness_of_its_client(title: str, port: str) -> None:
    value, *autogroup = shared(title, port)
    assert int(value) == min(19, os.nice(0) + 3)
    if has_autogroups() and os.getuid() == 0:
        assert autogroup[0].strip().endswith(f"nice {value}")


@pytest.mark.parametrize(
    ("title", "port"),
    [
        ("postgres: stanchion stanchion 127.0.0.1(40124) idle", "40123"),
        ("postgres: stanchion stanchion [local] idle", "40123"),
        ("pgbouncer: stanchion 127.0.0.1(40123) idle", "40123"),
    ],
)
def test_process_that_is_not_the_backend_keeps_its_niceness(title: str, port: str) -> None:
    assert int(shared(title, port)[0]) == os.nice(0)


def test_unknown_process_is_no_error() -> None:
    share_niceness(2**22 + 1, 40123)


def test_session_is_weighed_again_after_linux_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux refuses a second change within a tenth of a second (EAGAIN)."""
    written: list[str] = []
    done = threading.Event()

    def refuse_once(_path: Path, text: str) -> None:
        written.append(text)
        if len(written) == 1:
            raise BlockingIOError(errno.EAGAIN, "again")
        done.set()

    monkeypatch.setattr(Path, "write_text", refuse_once)
    monkeypatch.setattr(niceness, "_autogroups", lambda: True)
    monkeypatch.setattr(niceness, "_AGAIN_SECONDS", 0.0)
    niceness._weigh_session(os.getpid(), 3)
    assert done.wait(60)
    assert written == ["3", "3"]
