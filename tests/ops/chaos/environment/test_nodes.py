"""Killing and stopping a node, and commands in its shell, with processes that do not use Ray."""

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
from tests.support.ops.waiting import wait_until

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
    "RAY_REDIS_ADDRESS": "h:3",
    "password": "p",
}
SHELLS = {"here": False, "isolated": True} if can_isolate() else {"here": False}


def node() -> RayNode:
    """A node with two child processes that ignores SIGTERM."""
    process = subprocess.Popen([sys.executable, "-c", CHILDREN], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return RayNode(process)


@pytest.fixture(params=SHELLS.values(), ids=list(SHELLS))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RayNode]:
    """The shell of a node, with and without a PID namespace where the machine permits one."""
    shell = RayCluster(tmp_path, VALUES).shell("node", isolated=request.param)
    yield shell
    shell.kill()


def test_killing_a_node_kills_all_its_processes() -> None:
    killed = node()
    pids = killed.pids
    assert len(pids) == 3
    assert killed.kill() == 3
    assert all(gone(pid) for pid in pids)
    assert killed.kill() == 0


def test_a_node_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.chaos.environment.nodes.END_SECONDS_MAX", 0.1)
    stubborn = node()
    pids = stubborn.pids
    began = time.monotonic()
    stubborn.leave()
    assert time.monotonic() - began >= 0.1
    assert all(gone(pid) for pid in pids)


def test_commands_run_in_one_shell(shell: RayNode) -> None:
    assert shell.run("export WORD='two words'") == ""
    assert shell.run("echo $WORD") == "two words\n"
    assert shell.run("command -v stanchion") == f"{Path(sys.executable).with_name('stanchion')}\n"
    with pytest.raises(NodeError, match=r"^status 3 of: \(exit 3\); see "):
        shell.run("(exit 3)")
    assert shell.run("echo still here") == "still here\n"


def test_background_processes_end_with_their_node(shell: RayNode) -> None:
    shell.run("sleep 600 &")
    pids = shell.pids
    shell.leave()
    assert len(pids) > 1
    assert all(gone(pid) for pid in pids)
    with pytest.raises(NodeError, match="has ended"):
        shell.run("echo lost")


async def test_a_process_forked_during_the_kill_dies_too(shell: RayNode, tmp_path: Path) -> None:
    """Each process forks the next one and exits, so a walk over descendants comes too late."""
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
    """Whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_that_ends_the_shell_is_an_error(shell: RayNode) -> None:
    with pytest.raises(NodeError, match="did not finish: exit"):
        shell.run("exit")


def test_the_node_id_comes_from_the_raylet(shell: RayNode) -> None:
    with pytest.raises(NodeError, match="no raylet"):
        _ = shell.id
    shell.run("bash -c 'sleep 600; true' raylet --node_id=ab12 &")
    shell.run("until grep -q node_id /proc/$!/cmdline; do sleep 0.02; done")
    assert shell.id == "ab12"


def test_an_isolated_node_sees_only_its_own_processes(shell: RayNode) -> None:
    number, *seen = shell.run("echo $$ /proc/[0-9]*").split()
    isolated = f"/proc/{os.getpid()}" not in seen
    assert (number == "1") == isolated == (len(seen) < 4)
    # `ray stop` ends every Ray process that it sees, so it runs in its own namespace only.
    assert isolated == (shell.run("test $$ = 1 && echo typed || true") == "typed\n")
