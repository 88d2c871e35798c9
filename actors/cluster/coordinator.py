"""The coordinator: keeps every shard with a living host, every node with its hosts, and everyone informed.

A host that dies, or does not answer pings, loses its shards to the survivors at once; a fresh host is then
created and gets its share. So is one on a node that has joined. Hosts that end in peace, to be replaced or
because their node shall leave, give their shards away first. If the coordinator is wrong about anything, or
there were two, commits fail and money is safe.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import structlog

from actors.cluster.liveness import HOST_PULSE, Loss, Pulse, loss, silence
from actors.cluster.ownership import Ownership, ReadEpochs
from actors.essential import start_essential
from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODES_SECONDS, missing_hosts
from engine.limits import PROGRAMME_PUBLISH_SECONDS

RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 5.0
"""Pauses before a node on which no host would start is tried again: twice as long each time."""
END_SECONDS: Final = 10.0
"""What a host that owns nothing any more gets to finish."""

_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.encode
_decode_int = msgspec.msgpack.Decoder(int).decode


class Hosts(Protocol):
    """Shard hosts as the coordinator needs them; every call but ``end`` raises PeerGoneError for a dead
    one. Nodes are told by whatever ``nodes`` calls them."""

    @property
    def nodes_may_change(self) -> bool: ...
    async def nodes(self) -> list[str]: ...
    def node_of(self, incarnation: str) -> str: ...
    async def create(self, node: str) -> str: ...
    async def living(self) -> set[str]: ...
    async def ping(self, incarnation: str) -> None: ...
    def stands_still(self, incarnation: str) -> bool: ...
    async def death(self, incarnation: str) -> None: ...
    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes: ...
    async def stop(self, incarnation: str) -> None: ...
    def end(self, incarnation: str) -> None: ...


ReadOwners = Callable[[], Awaitable[dict[int, str | None]]]


class Watched(NamedTuple):
    """A host that lives, as far as is known."""

    node: str
    guard: asyncio.Task[None]


class Coordinator:
    """See the module; a ``Role``. ``wanted``: hosts for each node; ``read_epochs`` as for ``Ownership``."""

    def __init__(
        self,
        hosts: Hosts,
        read_owners: ReadOwners,
        wanted: int,
        read_epochs: ReadEpochs | None = None,
        *,
        pulse: Pulse = HOST_PULSE,
    ) -> None:
        self._hosts = hosts
        self._pulse = pulse
        self._read_owners = read_owners
        self._wanted = wanted
        self._watched: dict[str, Watched] = {}
        self._ownership = Ownership(hosts.call, read_epochs)
        self._creating: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._leaving: set[str] = set()
        """Nodes that get no host any more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.takeovers = 0

    # --- role ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the hosts that live, create those that are missing, and give every shard an owner."""
        self._ownership.learn(await self._read_owners())
        owners = self._ownership.owners()
        for incarnation in await self._hosts.living():
            if incarnation in owners and await self._answers(incarnation):
                self._watch(incarnation)
            else:
                self._hosts.end(incarnation)
        await self._create_missing()
        async with self._ownership.moving:
            await self._share_out()
        if self._hosts.nodes_may_change:
            self._spawn(self._look_for_nodes())

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == "table":
            return _encode(await self._ownership.table_after(_decode_int(payload)))
        if method == "publish_programme":
            await self._publish_programme(payload)
            return b""
        if method == "hosts":
            return _encode(sorted(self._watched))
        if method == "replace":
            return (await self._replace(payload.decode())).encode()
        if method == "drain":
            return _encode(await self._drain(payload.decode()))
        raise ValueError(method)

    def figures(self) -> Figures:
        return {
            "stanchion_takeovers": self.takeovers,
            "stanchion_shards_unowned": self._ownership.unowned,
            "stanchion_nodes": len({watched.node for watched in self._watched.values()}),
        }

    async def stop(self) -> None:
        """Let every host finish what it has decided, and end it; nothing is taken over any more."""
        guards = [watched.guard for watched in self._watched.values()]
        for task in (*self._tasks, *guards):
            task.cancel()
        await asyncio.gather(*self._tasks, *guards, return_exceptions=True)
        hosts = tuple(self._watched)
        self._watched.clear()
        # A cluster that is not ours would keep them.
        await asyncio.gather(*(self._end(host) for host in hosts))

    async def _publish_programme(self, config: bytes) -> None:
        """All living hosts learn it; one that dies meanwhile has no cards to decide on."""
        calls = (self._hosts.call(host, "programme_changed", config) for host in tuple(self._watched))
        async with asyncio.timeout(PROGRAMME_PUBLISH_SECONDS):
            results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, PeerGoneError):
                raise result

    # --- watching -----------------------------------------------------------------------------------------

    async def _answers(self, incarnation: str) -> bool:
        return await silence(partial(self._hosts.ping, incarnation), self._pulse) is None

    def _watch(self, incarnation: str) -> None:
        guard = start_essential(self._guard(incarnation), "guard")
        self._watched[incarnation] = Watched(self._hosts.node_of(incarnation), guard)

    def _unwatch(self, incarnation: str) -> None:
        """What happens to the host from now on is nobody's loss."""
        self._watched.pop(incarnation).guard.cancel()

    async def _guard(self, incarnation: str) -> None:
        """Returns when the host is lost."""
        reason = await loss(
            partial(self._hosts.ping, incarnation),
            partial(self._hosts.death, incarnation),
            partial(self._hosts.stands_still, incarnation),
            self._pulse,
        )
        self._spawn(self._lost(incarnation, reason))

    async def _lost(self, incarnation: str, reason: Loss) -> None:
        if self._watched.pop(incarnation, None) is None:
            return
        _log.warning("host_lost", incarnation=incarnation, reason=reason)
        self._hosts.end(incarnation)
        self.takeovers += 1
        async with self._ownership.moving:
            await self._ownership.adopt_orphans(self._watched.keys())
        await self._refill()

    # --- as many hosts as there should be -----------------------------------------------------------------

    async def _look_for_nodes(self) -> None:
        while True:
            await asyncio.sleep(NODES_SECONDS)
            await self._refill()

    async def _missing(self) -> list[str]:
        nodes = await self._hosts.nodes()
        self._leaving.intersection_update(nodes)
        present = [watched.node for watched in self._watched.values()]
        wanted = [node for node in nodes if node not in self._leaving]
        return missing_hosts(wanted, [*present, *self._creating.elements()], self._wanted)

    async def _create_missing(self) -> None:
        """At the start: wait for all that can be had, and fail where none can."""
        created = await asyncio.gather(
            *(self._hosts.create(node) for node in await self._missing()), return_exceptions=True
        )
        for each in created:
            if isinstance(each, str):
                self._watch(each)
        for each in created:
            if isinstance(each, BaseException) and not self._watched:
                raise each

    async def _refill(self) -> None:
        """Begin to create what is missing; no node waits for another."""
        for node in await self._missing():
            self._creating[node] += 1
            self._spawn(self._add(node))

    async def _add(self, node: str) -> None:
        """Create a host on ``node`` and give it its share."""
        try:
            self._watch(await self._hosts.create(node))
        except (PeerGoneError, PeerFailedError) as failure:
            self._failures[node] += 1
            pause = min(RETRY_SECONDS * 2 ** self._failures[node], RETRY_SECONDS_MAX)
            _log.warning("host_cannot_start", node=node, error=type(failure).__name__)
            await asyncio.sleep(pause)
            self._creating[node] -= 1
            self._spawn(self._refill())
            return
        self._creating[node] -= 1
        del self._failures[node]
        async with self._ownership.moving:
            await self._share_out()

    async def _share_out(self) -> None:
        await self._ownership.adopt_orphans(self._watched.keys())
        await self._ownership.even_out(self._watched.keys())

    # --- ends in peace ------------------------------------------------------------------------------------

    async def _replace(self, old: str) -> str:
        """A successor on the same node takes over everything that ``old`` owns, then ``old`` ends; returns
        the successor. ``old`` is returned when it had to stay, and "" when there is no such host (any
        more)."""
        watched = self._watched.get(old)
        if watched is None:
            return ""
        new = await self._hosts.create(watched.node)
        async with self._ownership.moving:
            if old not in self._watched:
                # It was lost meanwhile, and is being replaced as such.
                self._hosts.end(new)
                return ""
            self._watch(new)
            await self._ownership.hand_off(old, [new])
            await self._ownership.adopt_orphans(self._watched.keys())
            if old not in self._watched:
                return ""
            if old in self._ownership.owners():
                return old
            self._unwatch(old)
        await self._end(old)
        return new

    async def _drain(self, node: str) -> int | None:
        """Have ``node`` keep nothing: its hosts give their shards away and end; how many there were. ``None``
        where no other node has hosts."""
        going = [host for host, watched in self._watched.items() if watched.node == node]
        staying = [host for host, watched in self._watched.items() if watched.node != node]
        if not staying:
            return None
        self._leaving.add(node)
        async with self._ownership.moving:
            for host in going:
                if host in self._watched:
                    await self._ownership.hand_off(host, staying)
                    self._unwatch(host)
            # What a host could not give away is taken from it.
            await self._ownership.adopt_orphans(self._watched.keys())
        await asyncio.gather(*(self._end(host) for host in going))
        return len(going)

    async def _end(self, incarnation: str) -> None:
        """Let a host that owns nothing finish, and end it."""
        with suppress(PeerGoneError, PeerFailedError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._hosts.stop(incarnation)
        self._hosts.end(incarnation)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_essential(work, "coordinator")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
