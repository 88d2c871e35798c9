"""A node's death and its end, and what is typed on it, on processes that are no Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.chaos.environment.nodes import NodeError, RayCluster, RayNode, can_isolate
from ops.chaos.environment.processes import gone
from tests.ops.waiting import wait_until

CHILDREN = """
import signal, subprocess
signal.signal(signal.SIGTERM, lambda *_: None)
for _ in range(2): subprocess.Popen(["sleep", "600"])
print("up", flush=True)
while True: signal.pause()
"""
VALUES = {
    "STANCHION_MASTER_KEY": "key",
    "STANCHION_VAR_DIR": "/tmp/a folder",
    "STANCHION_DATABASE_URL": "postgresql://u:p@h:1/d",
    "STANCHION_REDIS_URL": "redis://h:2/0",
    "STANCHION_VISION_BASE_URL": "https://pages.example.com",
}
SHELLS = {"here": False, "isolated": True} if can_isolate() else {"here": False}


def node() -> RayNode:
    """One that has begun two processes of its own, and stays when it is asked to go."""
    process = subprocess.Popen([sys.executable, "-c", CHILDREN], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return RayNode(process)


@pytest.fixture(params=SHELLS.values(), ids=list(SHELLS))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RayNode]:
    """The shell of a node, with a process table of its own where there can be one."""
    shell = RayCluster(tmp_path, VALUES).shell("node", isolated=request.param)
    yield shell
    shell.kill()


def test_a_node_that_is_killed_takes_everything_with_it() -> None:
    killed = node()
    pids = killed.pids
    assert len(pids) == 3
    assert killed.kill() == 3
    assert all(gone(pid) for pid in pids)
    assert killed.kill() == 0


def test_one_that_does_not_leave_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.chaos.environment.nodes.END_SECONDS_MAX", 0.1)
    staying = node()
    pids = staying.pids
    began = time.monotonic()
    staying.leave()
    assert time.monotonic() - began >= 0.1
    assert all(gone(pid) for pid in pids)


def test_lines_are_typed_into_one_shell(shell: RayNode) -> None:
    assert shell.run("export WORD='two words'") == ""
    assert shell.run("echo $WORD") == "two words\n"
    assert shell.run("command -v stanchion") == f"{Path(sys.executable).with_name('stanchion')}\n"
    with pytest.raises(NodeError, match=r"^status 3 of: \(exit 3\); see "):
        shell.run("(exit 3)")
    assert shell.run("echo still here") == "still here\n"


def test_what_was_typed_ends_with_its_node(shell: RayNode) -> None:
    shell.run("sleep 600 &")
    pids = shell.pids
    shell.leave()
    assert len(pids) > 1
    assert all(gone(pid) for pid in pids)
    with pytest.raises(NodeError, match="has ended"):
        shell.run("echo nobody")


async def test_what_is_just_beginning_dies_too(shell: RayNode, tmp_path: Path) -> None:
    """Each of them outlives the one that made it, so that whoever looks for descendants comes too late."""
    begun = tmp_path / "begun"
    shell.run(f"next() {{ echo >> {begun}; (next) & exit; }}; (next) & until test -s {begun}; do :; done")
    group = os.getpgid(shell.pids[0])
    assert group != os.getpgid(0)
    try:
        shell.kill()
        await wait_until(lambda: not is_there(group))
    finally:
        if is_there(group):
            os.killpg(group, signal.SIGKILL)


def is_there(group: int) -> bool:
    """Whether a process group has anybody in it."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_line_that_ends_the_shell_is_told(shell: RayNode) -> None:
    with pytest.raises(NodeError, match="does not end: exit"):
        shell.run("exit")


def test_a_node_is_told_by_its_raylet(shell: RayNode) -> None:
    with pytest.raises(NodeError, match="no raylet"):
        _ = shell.id
    shell.run("bash -c 'sleep 600; true' raylet --node_id=ab12 &")
    shell.run("until grep -q node_id /proc/$!/cmdline; do sleep 0.02; done")
    assert shell.id == "ab12"


def test_a_node_apart_sees_nobody_else(shell: RayNode) -> None:
    number, *seen = shell.run("echo $$ /proc/[0-9]*").split()
    isolated = f"/proc/{os.getpid()}" not in seen
    assert (number == "1") == isolated == (len(seen) < 4)
    # `ray stop` ends what it sees: it must not be typed anywhere else.
    assert isolated == (shell.run("test $$ = 1 && echo typed || true") == "typed\n")
