"""The rivals' processes: started beside an installation, each on a database of its own on the same server."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from loadtests.generators.wire import Address
from loadtests.harness.children import Helper, Installation
from loadtests.harness.systems import ACTORS, BATCHES, KINDS, REDIS, ROW_LOCKS, WEB, System

BATCH_PROCESSES: Final = 1
BATCH_LANES: Final = 2
"""Concurrent batches in each process: the fastest of the numbers tried (ops/docs/PERFORMANCE.md)."""
REDIS_LANES: Final = 2
ACTOR_OWNERS: Final = 2
"""As many as the installation has shard hosts."""


class RivalPlan(Protocol):
    """The part of a stage's plan that concerns rivals."""

    @property
    def rivals(self) -> tuple[str, ...]: ...
    @property
    def rival_processes(self) -> int: ...
    @property
    def rival_connections(self) -> int: ...
    @property
    def far_ms(self) -> float: ...


class RivalStage(Protocol):
    """The installation that rivals start beside, and the way to start helper processes."""

    @property
    def plan(self) -> RivalPlan: ...
    @property
    def installation(self) -> Installation: ...
    @property
    def inside(self) -> Helper: ...
    @property
    def var_dir(self) -> Path: ...
    @property
    def postmaster(self) -> int: ...
    @property
    def beside(self) -> tuple[int, ...]: ...
    async def helper(
        self, errors: IO[bytes], module: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> Helper: ...


class Rival:
    """One rival: its processes, and the systems that they form."""

    def __init__(self, name: str, helpers: list[Helper], systems: list[System]) -> None:
        self.name = name
        self.helpers = helpers
        self.systems = systems
        self.edges: list[Address] = []
        self.webs: list[Address] = []
        self.actors: tuple[int, ...] = ()
        """Process ids of actors in the installation's own Ray."""

    def leave_out(self, pids: frozenset[int]) -> None:
        """Do not count the installation's processes ``pids`` where this rival shares Ray with it."""
        if self.actors:
            self.systems = [msgspec.structs.replace(each, without=pids) for each in self.systems]

    async def held_minor(self) -> int:
        """The sum of holds on its cards, in minor units."""
        return int(await self.helpers[0].ask("held_by_actors" if self.actors else "held_minor"))


async def start_rivals(stage: RivalStage, errors: IO[bytes]) -> dict[str, Rival]:
    """Start the rivals of the stage's plan; returns them by name."""
    return {name: await _STARTERS.get(name, _start)(stage, errors, name) for name in stage.plan.rivals}


async def _start(stage: RivalStage, errors: IO[bytes], name: str) -> Rival:
    """Start a rival with processes of its own on PostgreSQL."""
    await stage.inside.ask("make_rival_database", kind=KINDS[name])
    count, share = stage.plan.rival_processes, stage.plan.rival_connections // stage.plan.rival_processes
    if name == BATCHES:
        count, share = BATCH_PROCESSES, BATCH_LANES
    rival = await _processes(stage, errors, name, count, max(1, share))
    labels = {helper.pid: "rival" for helper in rival.helpers}
    roots = (*labels, stage.postmaster)
    names = (name, WEB) if name == ROW_LOCKS else (name,)
    rival.systems = [System(each, roots, labels, beside=stage.beside) for each in names]
    return rival


async def _start_redis(stage: RivalStage, errors: IO[bytes], name: str) -> Rival:
    """Start the rival whose server is Redis."""
    server = await stage.helper(errors, "ops.bench.synced_redis", str(stage.var_dir))
    environment = {"STANCHION_BENCH_REDIS_URL": str(await server.ask("open"))}
    count = stage.plan.rival_processes
    rival = await _processes(stage, errors, name, count, REDIS_LANES, environment)
    labels = {helper.pid: "rival" for helper in rival.helpers}
    rival.systems = [System(name, (*labels, server.pid), labels, log=rival.helpers[0])]
    return rival


async def _start_actors(stage: RivalStage, _errors: IO[bytes], name: str) -> Rival:
    """Start the rival whose actors run in the installation's Ray; the client inside it calls them."""
    await stage.inside.ask("make_rival_database", kind=KINDS[name])
    connections = max(1, stage.plan.rival_connections // ACTOR_OWNERS)
    pids: list[int] = await stage.inside.ask("open_actors", owners=ACTOR_OWNERS, connections=connections)
    rival = Rival(name, [stage.inside], [])
    rival.actors = tuple(pids)
    labels = dict.fromkeys(pids, "actors") | {stage.inside.pid: "caller"}
    roots = {stage.installation.pid, stage.inside.pid, stage.postmaster}
    if not stage.plan.far_ms:
        # The installation's process tree contains the server.
        roots.discard(stage.postmaster)
    rival.systems = [System(name, tuple(roots), labels, beside=stage.beside)]
    return rival


async def _processes(
    stage: RivalStage,
    errors: IO[bytes],
    name: str,
    count: int,
    share: int,
    environment: dict[str, str] | None = None,
) -> Rival:
    rival = Rival(name, [], [])
    for _ in range(count):
        about = (str(stage.var_dir), KINDS[name], str(share))
        helper = await stage.helper(errors, "ops.bench.rival", *about, environment=environment)
        rival.helpers.append(helper)
        listens = await helper.ask("open")
        (host, port), (web_host, web_port) = listens["edge"], listens["web"]
        rival.edges.append((host, port))
        rival.webs.append((web_host, web_port))
    return rival


_STARTERS: Final = {REDIS: _start_redis, ACTORS: _start_actors}
