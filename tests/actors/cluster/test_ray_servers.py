"""Detecting that a server of a local Ray has ended or is stopped. Other processes stand in for the
servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from actors.cluster.process_state import identity_of
from actors.cluster.ray_servers import RAYLET, RayServers

_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""
Process = subprocess.Popen[str]


@dataclass
class Fork:
    """The process id of a fork server."""

    pid: int | None


@pytest.fixture
def processes() -> Iterator[dict[str, Process]]:
    """Two servers, one of which has a child."""
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("gcs_server", RAYLET)
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.fixture
def child(processes: dict[str, Process]) -> int:
    """The raylet's child."""
    for process in processes.values():
        assert process.stdout is not None
        pid = int(process.stdout.readline())
    return pid


async def lost(servers: RayServers) -> str:
    async with asyncio.timeout(60):
        return await servers.lost()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("name", ["gcs_server", RAYLET])
async def test_server_that_ends_or_stops_is_lost(
    processes: dict[str, Process], child: int, name: str, number: signal.Signals
) -> None:
    servers = RayServers(lambda: processes, check_seconds=0.001)
    servers.learn()
    assert servers.check() == ""
    processes[name].send_signal(number)
    assert await lost(servers) == servers.missing == name
    servers.kill()
    assert {process.wait(60) for process in processes.values()} == {-signal.SIGKILL}


async def test_processes_of_a_dead_raylet_are_still_listed(processes: dict[str, Process], child: int) -> None:
    servers = RayServers(lambda: processes, check_seconds=0.001)
    servers.learn()
    identity = identity_of(child)
    assert servers.processes() == {identity}
    processes[RAYLET].kill()
    assert await lost(servers) == RAYLET
    assert servers.processes() == {identity}


async def test_processes_of_the_fork_server_are_listed(processes: dict[str, Process], child: int) -> None:
    # This process stands in for the fork server: the two servers are its children.
    fork_server = Fork(os.getpid())
    servers = RayServers(lambda: processes, fork_server=fork_server)
    servers.learn()
    children = {identity_of(process.pid) for process in processes.values()}
    assert servers.processes() >= {identity_of(child)} | children
    fork_server.pid = None
    assert servers.processes() >= {identity_of(child)} | children


def test_learn_replaces_the_servers_of_an_earlier_ray(processes: dict[str, Process], child: int) -> None:
    found: dict[str, Process] = dict(processes)
    servers = RayServers(lambda: found)
    servers.learn()
    servers.missing = RAYLET
    found.clear()
    servers.learn()
    assert servers.check() == ""
    assert servers.processes() == set()
