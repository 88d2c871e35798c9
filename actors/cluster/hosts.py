"""The lives of shard hosts: creating, finding and ending them.

Hosts are never restarted by Ray: their death must reach callers at once, and a successor is a new
incarnation with a new name, so a process that was only frozen cannot be mistaken for it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

import ray

from actors.cluster.peers import RayPeers
from actors.cluster.process import launch
from actors.cluster.session import namespace
from actors.cluster.standstill import stands_still
from actors.settings import Settings

FACTORY: Final = "actors.boot:host"
PREFIX: Final = "host-"


class RayHosts:
    """See ``actors.cluster.coordinator.Hosts``."""

    def __init__(self, settings: Settings, peers: RayPeers) -> None:
        self._settings = settings
        self._peers = peers
        self._whereabouts: dict[str, str] = {}

    async def create(self) -> str:
        """A new host that serves and owns nothing; returns its incarnation."""
        incarnation = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        await asyncio.to_thread(launch, FACTORY, self._settings, incarnation)
        await self._peers.ping(incarnation)
        return incarnation

    async def living(self) -> set[str]:
        """The incarnations that Ray knows, frozen ones among them."""
        named = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
        mine = namespace(self._settings)
        return {
            actor["name"]
            for actor in named
            if actor["namespace"] == mine and actor["name"].startswith(PREFIX)
        }

    async def ping(self, incarnation: str) -> None:
        """Returns when the host answers; PeerGoneError when it is dead."""
        await self._peers.ping(incarnation)
        if incarnation not in self._whereabouts:
            self._whereabouts[incarnation] = await self._peers.ask(incarnation, "whereabouts")

    def stands_still(self, incarnation: str) -> bool:
        """Whether the host is seen to be stopped or dead; false where that cannot be seen."""
        return stands_still(self._whereabouts.get(incarnation, ""))

    async def death(self, incarnation: str) -> None:
        """Raises PeerGoneError as soon as the host is dead."""
        await self._peers.ask(incarnation, "park")

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
