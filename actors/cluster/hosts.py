"""Shard hosts as Ray actors: creating, finding and ending them.

Ray never restarts a host. Its death must reach callers at once, and a successor is a new incarnation with a
new name, so a process that was only frozen cannot be mistaken for its successor.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from typing import Final

import ray
import structlog
from ray.exceptions import RayError

from actors.cluster.coordinator import Coordinator
from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.leadership import Leadership
from actors.cluster.nodes import Nodes, placement_options
from actors.cluster.peers import RayPeers
from actors.cluster.process import launch
from actors.cluster.process_state import KernelState
from actors.cluster.ray_session import process_names
from actors.journal.leader_lock import LeaderLock
from actors.journal.owners import ShardOwners
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODE_LETTERS, default_reserve
from actors.roles import Context, Role
from actors.settings import Settings
from engine.limits import ROLE_START_SECONDS

FACTORY: Final = "actors.shards.role:HostRole"
PREFIX: Final = "host-"

_log = structlog.get_logger(__name__)


def coordinator(context: Context) -> Role:
    """The role that assigns shards to the hosts of this module."""
    settings = context.settings
    peers = RayPeers(settings)
    hosts = RayHosts(settings, peers)
    shard_owners = ShardOwners(settings.database_dsn)
    leading = Coordinator(
        hosts, shard_owners.owners, settings.hosts, shard_owners.epochs, reserve=_reserve_hosts(settings)
    )
    return Leadership(leading, LeaderLock(settings.database_dsn), peers, context.name)


def _reserve_hosts(settings: Settings) -> int:
    """The reserves of each node: as set, or by the cores of the coordinator's machine."""
    if settings.reserve_hosts is not None:
        return settings.reserve_hosts
    return default_reserve(settings.hosts, os.cpu_count() or 1)


class RayHosts:
    """Implements ``actors.cluster.host_watch.Hosts``. A node is named by the first letters of its id, which
    are also part of the names of its hosts."""

    def __init__(self, settings: Settings, peers: RayPeers) -> None:
        self._settings = settings
        self._peers = peers
        self._nodes = Nodes(settings)
        self._ids: dict[str, str] = {}
        self._states: dict[str, KernelState] = {}
        self._created: set[str] = set()

    @property
    def nodes_may_change(self) -> bool:
        """Whether nodes can join or leave."""
        return self._nodes.may_change

    async def nodes(self) -> list[str]:
        """The nodes that can run hosts."""
        self._ids = {node[:NODE_LETTERS]: node for node in await self._nodes.living()}
        return list(self._ids)

    def node_of(self, incarnation: str) -> str:
        """The node on which a host runs, or ran."""
        return incarnation.removeprefix(PREFIX).partition("-")[0]

    async def create(self, node: str) -> str:
        """Create a host on ``node`` that serves and owns no shard; returns its incarnation. Raises
        PeerGoneError when the node has left, PeerFailedError when the host does not start in time."""
        incarnation = f"{PREFIX}{node}-{uuid.uuid4().hex[:8]}"
        if node not in self._ids:
            raise PeerGoneError(incarnation)
        self._created.add(incarnation)
        given_up = threading.Event()
        try:
            # A head that is away would keep the launch for later.
            await self._nodes.head_answers()
            await in_daemon_thread(self._launch, incarnation, self._ids[node], given_up)
            async with asyncio.timeout(ROLE_START_SECONDS):
                await self._peers.ping(incarnation)
        except BaseException as failure:
            # Without this, a host that lives but does not serve would stay behind unwatched.
            given_up.set()
            self._peers.kill(incarnation)
            self._created.discard(incarnation)
            if isinstance(failure, TimeoutError | RayError | RuntimeError):
                raise PeerFailedError(f"{incarnation}: it does not start") from None
            raise
        return incarnation

    def _launch(self, incarnation: str, node: str, given_up: threading.Event) -> None:
        """Blocks on Ray; the caller may have given up meanwhile."""
        handle = launch(FACTORY, self._settings, incarnation, placement_options(node, pinned=True))
        if given_up.is_set():
            ray.kill(handle)

    async def living(self) -> set[str]:
        """The incarnations that Ray knows and that this process has not created, frozen ones included. Empty
        while Ray's head does not answer."""
        try:
            names = await in_daemon_thread(process_names, self._settings)
        except (RayError, RuntimeError, TimeoutError) as failure:
            _log.warning("names_unknown", error=type(failure).__name__)
            return set()
        return {name for name in names if name.startswith(PREFIX)} - self._created

    async def ping(self, incarnation: str) -> None:
        """Returns when the host answers; raises PeerGoneError when it is dead."""
        identity, state = await self._peers.ping(incarnation), self._states.get(incarnation)
        if state is None or state.identity != identity:
            self._forget_state(incarnation)
            self._states[incarnation] = KernelState(identity)

    def is_halted(self, incarnation: str) -> bool:
        """Whether the kernel shows the host as stopped or ended; false where it cannot be seen."""
        state = self._states.get(incarnation)
        return state is not None and state.is_halted()

    async def death(self, incarnation: str) -> None:
        """Raises PeerGoneError as soon as the host is dead."""
        await self._peers.death(incarnation)

    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes:
        """Call the host's role."""
        return await self._peers.call(incarnation, method, payload)

    async def stop(self, incarnation: str) -> None:
        """Let the host make its decisions durable and stop."""
        await self._peers.ask(incarnation, "stop")

    def end(self, incarnation: str) -> None:
        """Kill the host without waiting for its end."""
        self._forget_state(incarnation)
        self._created.discard(incarnation)
        self._peers.kill(incarnation)

    def _forget_state(self, incarnation: str) -> None:
        state = self._states.pop(incarnation, None)
        if state is not None:
            state.close()
