"""A program that loses its local Ray while tasks call a process of it, and joins a new one.

    python -m tests.support.actors.cluster.lose_ray FOLDER SERVER ROUNDS

``SERVER`` (``raylet`` or ``gcs_server``) is killed in each round. The program runs as a child of init, as a
service manager starts the supervisor, and prints a line for each round.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from actors.cluster.environment import prepare
from actors.settings import Settings

if __name__ == "__main__":
    # Continue in a child, whose parent then is init; and prepare before the first import of ray.
    if os.fork():
        os._exit(0)
    prepare(Settings.load(var_dir=Path(sys.argv[1])))

import ray
from ray.exceptions import RayError

from actors.cluster.local_node import servers
from actors.cluster.nodes import Nodes
from actors.cluster.peers import RayPeers
from actors.cluster.ray_connection import RayConnection
from actors.cluster.ray_session import namespace
from actors.peers import PeerFailedError, PeerGoneError

CALLERS: Final = 8
CALL_SECONDS: Final = 1.0
NAME: Final = "process"


class Process:
    """Two methods: one answers soon, one later than its callers wait."""

    async def figures(self) -> int:
        await asyncio.sleep(0.02)
        return 1

    async def slow(self) -> int:
        await asyncio.sleep(3 * CALL_SECONDS)
        return 1


async def call(peers: RayPeers, method: str, answered: asyncio.Event) -> None:
    """Call ``method`` again and again, as scrapes of the metrics port do."""
    while True:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await peers.ask(NAME, method)
            answered.set()
        except (PeerGoneError, PeerFailedError, TimeoutError):
            await asyncio.sleep(0.01)


async def ask_head(nodes: Nodes, connection: RayConnection) -> None:
    """Ask Ray's head again and again, as readiness checks do."""
    while True:
        if connection.servers.check() == "":
            try:
                await nodes.head_answers()
            except (RayError, RuntimeError, TimeoutError):
                pass
        await asyncio.sleep(0.01)


async def lose(settings: Settings, server: str, rounds: int) -> None:
    """Lose ``server`` and join again, ``rounds`` times."""
    peers = RayPeers(settings)
    connection = RayConnection(settings, peers)
    answered = asyncio.Event()
    await connection.join()
    tasks = [asyncio.create_task(call(peers, "figures", answered)) for _ in range(CALLERS)]
    tasks += [asyncio.create_task(call(peers, "slow", asyncio.Event())) for _ in range(CALLERS)]
    tasks.append(asyncio.create_task(ask_head(Nodes(settings), connection)))
    for _ in range(rounds):
        options = {"name": NAME, "namespace": namespace(settings), "max_concurrency": 100}
        ray.remote(Process).options(**options, lifetime="detached").remote()
        answered.clear()
        await answered.wait()
        os.kill(servers()[server].pid, signal.SIGKILL)
        await connection.servers.lost()
        await connection.leave()
        connection.end_outliving()
        await connection.join()
        print("joined again", flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await connection.leave_if_joined()


if __name__ == "__main__":
    asyncio.run(lose(Settings.load(var_dir=Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])))
    print("ended", flush=True)
