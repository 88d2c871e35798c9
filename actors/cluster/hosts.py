"""The lives of shard hosts: creating, finding and ending them.

Hosts are never restarted by Ray: their death must reach callers at once, and a successor is a new
incarnation with a new name, so a process that was only frozen cannot be mistaken for it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from actors.cluster.beside import in_thread
from actors.cluster.coordinator import Coordinator
from actors.cluster.nodes import Nodes, on
from actors.cluster.peers import RayPeers
from actors.cluster.process import launch
from actors.cluster.session import named
from actors.cluster.standstill import stands_still
from actors.journal.owners import ShardOwners
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODE_LETTERS
from actors.roles import Context, Role
from actors.settings import Settings
from engine.limits import ROLE_START_SECONDS

FACTORY: Final = "actors.shards.role:HostRole"
PREFIX: Final = "host-"


def coordinator(context: Context) -> Role:
    """The role that assigns shards to hosts of this kind."""
    settings = context.settings
    hosts = RayHosts(settings, RayPeers(settings))
    book = ShardOwners(settings.database_dsn)
    return Coordinator(hosts, book.owners, settings.hosts, book.epochs)


class RayHosts:
    """See ``actors.cluster.coordinator.Hosts``. A node is called by the first letters of its id, which also
    stand in the names of its hosts."""

    def __init__(self, settings: Settings, peers: RayPeers) -> None:
        self._settings = settings
        self._peers = peers
        self._nodes = Nodes(settings)
        self._ids: dict[str, str] = {}
        self._whereabouts: dict[str, str] = {}

    @property
    def nodes_may_change(self) -> bool:
        """Whether it is worth asking for nodes again."""
        return self._nodes.may_change

    async def nodes(self) -> list[str]:
        """The nodes that take hosts."""
        self._ids = {node[:NODE_LETTERS]: node for node in await self._nodes.living()}
        return list(self._ids)

    def node_of(self, incarnation: str) -> str:
        """Where a host runs, or ran."""
        return incarnation.removeprefix(PREFIX).partition("-")[0]

    async def create(self, node: str) -> str:
        """A new host on ``node`` that serves and owns nothing; returns its incarnation. Raises PeerGoneError
        when the node is no more."""
        incarnation = f"{PREFIX}{node}-{uuid.uuid4().hex[:8]}"
        if node not in self._ids:
            raise PeerGoneError(incarnation)
        try:
            await in_thread(launch, FACTORY, self._settings, incarnation, on(self._ids[node], pinned=True))
            async with asyncio.timeout(ROLE_START_SECONDS):
                await self._peers.ping(incarnation)
        except BaseException as failure:
            # One that lives and cannot serve is nobody's host.
            self._peers.kill(incarnation)
            if isinstance(failure, TimeoutError):
                raise PeerFailedError(f"{incarnation}: it does not start") from None
            raise
        return incarnation

    async def living(self) -> set[str]:
        """The incarnations that Ray knows, frozen ones among them."""
        return {name for name in await in_thread(named, self._settings) if name.startswith(PREFIX)}

    async def ping(self, incarnation: str) -> None:
        """Returns when the host answers; PeerGoneError when it is dead."""
        self._whereabouts[incarnation] = await self._peers.ping(incarnation)

    def stands_still(self, incarnation: str) -> bool:
        """Whether the host is seen to be stopped or dead; false where that cannot be seen."""
        return stands_still(self._whereabouts.get(incarnation, ""))

    async def death(self, incarnation: str) -> None:
        """Raises PeerGoneError as soon as the host is dead."""
        await self._peers.death(incarnation)

    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes:
        """Call the host's role."""
        return await self._peers.call(incarnation, method, payload)

    async def stop(self, incarnation: str) -> None:
        """Let the host finish what it has decided."""
        await self._peers.ask(incarnation, "stop")

    def end(self, incarnation: str) -> None:
        """Kill the host without waiting for it."""
        self._whereabouts.pop(incarnation, None)
        self._peers.kill(incarnation)
