"""Shard hosts in memory, which die, freeze and refuse on demand, and their coordinators' tables. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from actors.cluster.coordinator import Coordinator
from actors.cluster.liveness import ProbePolicy
from actors.peers import PeerGoneError, RoutingTable
from engine.limits import SHARD_COUNT

_shards = msgspec.msgpack.Decoder(list[int]).decode
_table = msgspec.msgpack.Decoder(RoutingTable).decode


class FakeHosts:
    """Hosts in memory. ``owned`` has the shards that each host believes to own."""

    def __init__(self, *nodes: str) -> None:
        self.living_nodes = list(nodes) or ["n1"]
        self.nodes_may_change = bool(nodes)
        self.placed: dict[str, str] = {}
        self.failing_nodes: set[str] = set()
        """Nodes on which no host starts."""
        self.owned: dict[str, set[int]] = {}
        self.dead: dict[str, asyncio.Event] = {}
        self.frozen: set[str] = set()
        self.halted: set[str] = set()
        """Hosts that the kernel reports as stopped."""
        self.ended: list[str] = []
        self.calls: list[tuple[str, bytes]] = []
        """Host and payload of all calls except takes and releases."""
        self.refusals = 0
        """Number of takes to be refused."""
        self.hangs = ("", "")
        """Method and host of calls that never return; pings do."""
        self.stopped: list[str] = []
        self._count = 0

    async def nodes(self) -> list[str]:
        return list(self.living_nodes)

    def node_of(self, incarnation: str) -> str:
        return self.placed[incarnation]

    async def create(self, node: str) -> str:
        if node in self.failing_nodes:
            raise PeerGoneError(node)
        self._count += 1
        name = f"host-{self._count}"
        self.placed[name] = node
        self.owned[name] = set()
        self.dead[name] = asyncio.Event()
        return name

    async def living(self) -> set[str]:
        return {name for name, dead in self.dead.items() if not dead.is_set()}

    async def ping(self, incarnation: str) -> None:
        self._alive(incarnation)
        if incarnation in self.frozen:
            await self.dead[incarnation].wait()
            raise PeerGoneError(incarnation)

    def is_halted(self, incarnation: str) -> bool:
        return incarnation in self.halted

    async def death(self, incarnation: str) -> None:
        await self.dead[incarnation].wait()
        raise PeerGoneError(incarnation)

    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes:
        await self.ping(incarnation)
        if self.hangs == (method, incarnation):
            await self.dead[incarnation].wait()
            raise PeerGoneError(incarnation)
        if method == "take":
            if self.refusals:
                self.refusals -= 1
                return b"unavailable"
            self.owned[incarnation] |= set(_shards(payload))
            return b"taken"
        if method == "release":
            self.owned[incarnation] -= set(_shards(payload))
        else:
            self.calls.append((incarnation, payload))
        return b""

    async def stop(self, incarnation: str) -> None:
        self._alive(incarnation)
        self.stopped.append(incarnation)

    def end(self, incarnation: str) -> None:
        self.ended.append(incarnation)
        self.dead.setdefault(incarnation, asyncio.Event()).set()

    def _alive(self, incarnation: str) -> None:
        if incarnation not in self.dead or self.dead[incarnation].is_set():
            raise PeerGoneError(incarnation)


SHORT_PROBES = ProbePolicy(ping_seconds=0.01, silence_seconds=0.05, check_seconds=0.05)
"""Shorter intervals than in production."""


async def no_owners() -> dict[int, str | None]:
    return dict.fromkeys(range(SHARD_COUNT))


async def table(coordinator: Coordinator, after: int = 0) -> RoutingTable:
    return _table(await coordinator.call("table", msgspec.msgpack.encode(after)))


async def settled(coordinator: Coordinator, wanted: Callable[[RoutingTable], bool]) -> RoutingTable:
    """Wait for the first table that satisfies ``wanted``."""
    current = await table(coordinator)
    async with asyncio.timeout(60):
        while not wanted(current):
            current = await table(coordinator, current.version)
    return current
