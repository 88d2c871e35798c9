"""A node's death and its end, on processes that are no Ray."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.chaos.nodes import RayCluster, RayNode
from ops.chaos.processes import gone

CHILDREN = (
    "import subprocess\nfor _ in range(2): subprocess.Popen(['sleep', '600'])\nprint('up', flush=True)\n"
)
STAYING = "import signal; signal.signal(signal.SIGTERM, lambda *_: None)\nwhile True: signal.pause()\n"


def node(behaviour: str) -> RayNode:
    """One that has begun two processes of its own."""
    process = subprocess.Popen([sys.executable, "-c", CHILDREN + behaviour], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return RayNode(process)


def test_a_node_that_is_killed_takes_everything_with_it() -> None:
    killed = node(STAYING)
    pids = killed.pids
    assert len(pids) == 3
    assert killed.kill() == 3
    assert all(gone(pid) for pid in pids)
    assert killed.kill() == 0


def test_one_that_does_not_leave_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.chaos.nodes.END_SECONDS_MAX", 0.1)
    staying = node(STAYING)
    pids = staying.pids
    began = time.monotonic()
    staying.leave()
    assert time.monotonic() - began >= 0.1
    assert all(gone(pid) for pid in pids)


def test_what_joins_has_the_token_and_its_settings(tmp_path: Path) -> None:
    first, second = RayCluster(tmp_path), RayCluster(tmp_path)
    variables = first.joining(STANCHION_HOSTS="1")
    assert variables["RAY_AUTH_MODE"] == "token"
    assert variables["STANCHION_HOSTS"] == "1"
    assert first.environment["RAY_AUTH_TOKEN"] != second.environment["RAY_AUTH_TOKEN"]
