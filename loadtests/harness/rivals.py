"""The rivals' processes: started beside an installation, each on a database of its own on the same server."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final, Protocol

from loadtests.generators.wire import Address
from loadtests.harness.children import Helper, Installation
from loadtests.harness.systems import BATCHES, KINDS, REDIS, System

BATCH_PROCESSES: Final = 1
BATCH_CONNECTIONS: Final = 2
"""Concurrent batches in each process: the fastest of the numbers tried (ops/docs/PERFORMANCE.md)."""
REDIS_CONNECTIONS: Final = 2


class RivalPlan(Protocol):
    """The part of a server plan that concerns rivals."""

    @property
    def rivals(self) -> tuple[str, ...]: ...
    @property
    def rival_processes(self) -> int: ...
    @property
    def rival_connections(self) -> int: ...
    @property
    def far_ms(self) -> float: ...


class RivalHost(Protocol):
    """The installation that rivals start beside, and the way to start helper processes."""

    @property
    def plan(self) -> RivalPlan: ...
    @property
    def installation(self) -> Installation: ...
    @property
    def inside(self) -> Helper: ...
    @property
    def meter(self) -> Helper: ...
    @property
    def var_dir(self) -> Path: ...
    @property
    def postmaster(self) -> int: ...
    @property
    def equipment(self) -> tuple[int, ...]: ...
    async def helper(
        self, errors: IO[bytes], module: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> Helper: ...


class RivalProcesses:
    """One rival: its processes, and the systems that they form."""

    def __init__(self, name: str, helpers: list[Helper], systems: list[System]) -> None:
        self.name = name
        self.helpers = helpers
        self.systems = systems
        self.edges: list[Address] = []

    async def held_minor(self) -> int:
        """The sum of holds on its cards, in minor units."""
        return int(await self.helpers[0].ask("held_minor"))


async def start_rivals(servers: RivalHost, errors: IO[bytes]) -> dict[str, RivalProcesses]:
    """Start the rivals of the server plan; returns them by name."""
    return {name: await _STARTERS.get(name, _start)(servers, errors, name) for name in servers.plan.rivals}


async def _start(servers: RivalHost, errors: IO[bytes], name: str) -> RivalProcesses:
    """Start a rival with processes of its own on PostgreSQL."""
    database = await servers.inside.ask("make_rival_database", kind=KINDS[name])
    count, share = (
        servers.plan.rival_processes,
        servers.plan.rival_connections // servers.plan.rival_processes,
    )
    if name == BATCHES:
        count, share = BATCH_PROCESSES, BATCH_CONNECTIONS
    rival = await _processes(servers, errors, name, count, max(1, share))
    labels = {helper.pid: "rival" for helper in rival.helpers}
    roots = (*labels, servers.postmaster)
    system = System(name, roots, labels, servers.equipment, log=servers.meter, database=database)
    rival.systems = [system]
    return rival


async def _start_redis(servers: RivalHost, errors: IO[bytes], name: str) -> RivalProcesses:
    """Start the rival whose server is Redis."""
    server = await servers.helper(errors, "ops.bench.synced_redis", str(servers.var_dir))
    environment = {"STANCHION_BENCH_REDIS_URL": str(await server.ask("open"))}
    count = servers.plan.rival_processes
    rival = await _processes(servers, errors, name, count, REDIS_CONNECTIONS, environment)
    labels = {helper.pid: "rival" for helper in rival.helpers}
    rival.systems = [System(name, (*labels, server.pid), labels, log=rival.helpers[0])]
    return rival


async def _processes(
    servers: RivalHost,
    errors: IO[bytes],
    name: str,
    count: int,
    share: int,
    environment: dict[str, str] | None = None,
) -> RivalProcesses:
    rival = RivalProcesses(name, [], [])
    for _ in range(count):
        about = (str(servers.var_dir), KINDS[name], str(share))
        helper = await servers.helper(errors, "ops.bench.rival", *about, environment=environment)
        rival.helpers.append(helper)
        host, port = await helper.ask("open")
        rival.edges.append((host, port))
    return rival


_STARTERS: Final = {REDIS: _start_redis}
