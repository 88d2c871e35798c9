"""The coordinator keeps every shard on a living host, keeps every node supplied with hosts, and publishes the
routing table. There are two; ``leadership`` decides which one leads, and the other only observes.

A host that dies, or does not answer pings, loses its shards to the survivors at once. The coordinator then
creates a new host, which gets its share or becomes a reserve; it does the same on a node that has joined. A
host that is replaced, or whose node is drained, hands over its shards first. An error of the coordinator, or
two coordinators at once, cannot harm money: the epochs make wrong commits fail.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import structlog

from actors.cluster.host_watch import Hosts, HostWatch
from actors.cluster.liveness import HOST_PROBES, Loss, ProbePolicy
from actors.cluster.ownership import Ownership, ReadEpochs
from actors.essential import start_essential
from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError
from actors.periodic import PeriodicTask
from actors.placement import NODES_SECONDS, missing_hosts, reserves
from engine.limits import PROGRAMME_PUBLISH_SECONDS

RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 5.0
"""Exponential back-off after a failed start of a host on a node: doubled after each failure, up to this."""
REFILL_PAUSE_SECONDS: Final = 0.5
"""Time between a takeover and the start of a new host, which uses a whole core. The new owner needs that core
first, to read its cards and to answer."""
END_SECONDS: Final = 10.0
"""Time for a host that owns no shard to finish before it is killed."""

_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.encode
_decode_int = msgspec.msgpack.Decoder(int).decode

ReadOwners = Callable[[], Awaitable[dict[int, str | None]]]


class Coordinator:
    """A ``Role``. ``wanted``: hosts for each node, of which ``reserve`` own no shards while the others live;
    ``read_epochs`` as for ``Ownership``."""

    def __init__(
        self,
        hosts: Hosts,
        read_owners: ReadOwners,
        wanted: int,
        read_epochs: ReadEpochs | None = None,
        *,
        reserve: int = 0,
        probes: ProbePolicy = HOST_PROBES,
    ) -> None:
        self._hosts = hosts
        self._read_owners = read_owners
        self._wanted = wanted
        self._serving = max(1, wanted - reserve)
        self._watch = HostWatch(hosts, self._on_lost, probes)
        self._ownership = Ownership(self._watch.call, read_epochs, self._reserves)
        self._leading = False
        self._lost: set[str] = set()
        """Owners that did not answer while another coordinator led."""
        self._planned = asyncio.Lock()
        """Held by moves between living hosts, which are planned from the owners of all shards. Takeovers do
        not wait for it."""
        self._creating: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._draining: set[str] = set()
        """Nodes that get no more hosts."""
        self._node_watch = PeriodicTask("node-watch", self._refill, NODES_SECONDS, delay=NODES_SECONDS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.takeovers = 0

    # --- role ---------------------------------------------------------------------------------------------

    async def observe(self, known: Collection[str] = ()) -> None:
        """Learn which hosts live, while another coordinator leads; to be called again and again. ``known``:
        hosts of the leader, which need not own shards. Afterwards ``start`` need not wait for the silence of
        dead hosts."""
        owners = {owner for owner in (await self._read_owners()).values() if owner is not None}
        await self._watch_answering(owners.union(known))
        self._lost = owners - self._watch.incarnations

    async def start(self) -> None:
        """Lead: adopt the living hosts, give every shard an owner, and create the missing hosts. Waits for
        new hosts only if no host lives."""
        self._watch.start_probing()
        self._ownership.learn(await self._read_owners())
        self._leading = True
        await self._watch_answering(self._ownership.owners() - self._lost)
        if not self._watch:
            await self._end_strangers()
            await self._create_missing()
            await self._rebalance()
        else:
            await self._ownership.adopt_orphans(self._watch.incarnations)
            self._spawn(self._complete())
        if self._hosts.nodes_may_change:
            self._node_watch.start()

    async def _watch_answering(self, incarnations: Collection[str]) -> None:
        """Watch those of the hosts that answer; all are pinged at once."""
        unknown = sorted(set(incarnations) - self._watch.incarnations)
        answers = await asyncio.gather(*map(self._watch.answers, unknown))
        for incarnation, answered in zip(unknown, answers, strict=True):
            if answered:
                self._watch.add(incarnation)

    async def _complete(self) -> None:
        """The part of a start for which no card has to wait."""
        await self._end_strangers()
        await self._refill()
        await self._rebalance()

    async def _end_strangers(self) -> None:
        """End the hosts of earlier coordinators that own no shard."""
        for incarnation in await self._hosts.living():
            if incarnation not in self._watch:
                self._hosts.end(incarnation)

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == "table":
            return _encode(await self._ownership.table_after(_decode_int(payload)))
        if method == "publish_programme":
            await self._publish_programme(payload)
            return b""
        if method == "hosts":
            return _encode(sorted(self._watch.incarnations))
        if method == "replace":
            return (await self._replace(payload.decode())).encode()
        if method == "drain":
            return _encode(await self._drain(payload.decode()))
        raise ValueError(method)

    def figures(self) -> Figures:
        if not self._leading:
            return {}
        return {
            "stanchion_takeovers": self.takeovers,
            "stanchion_shards_unowned": self._ownership.unowned,
            "stanchion_nodes": len(set(self._watch.nodes())),
        }

    async def stop(self) -> None:
        """Let every host make its decisions durable, and end it. No shard moves any more. A coordinator that
        does not lead ends no host."""
        await self._node_watch.stop()
        for task in self._tasks:
            task.cancel()
        await self._watch.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Hosts must be ended here: an existing cluster would keep them.
        hosts = self._watch.clear()
        if self._leading:
            await asyncio.gather(*(self._end(host) for host in hosts))

    async def _publish_programme(self, config: bytes) -> None:
        """Announce a programme's version to all hosts. A host that does not answer can still decide with the
        old version, until its shards have a new owner: wait for that. Raises TimeoutError after
        ``PROGRAMME_PUBLISH_SECONDS``."""
        owners, hosts = self._ownership.owners(), tuple(self._watch.incarnations)
        calls = (self._watch.call(host, "programme_changed", config) for host in hosts)
        async with asyncio.timeout(PROGRAMME_PUBLISH_SECONDS):
            results = dict(zip(hosts, await asyncio.gather(*calls, return_exceptions=True), strict=True))
            for result in results.values():
                if isinstance(result, BaseException) and not isinstance(result, PeerGoneError):
                    raise result
            informed = {host for host, result in results.items() if not isinstance(result, PeerGoneError)}
            await self._ownership.wait_until_taken_from((owners | set(hosts)) - informed)

    # --- lost hosts ---------------------------------------------------------------------------------------

    def _on_lost(self, incarnation: str, reason: Loss) -> None:
        if self._leading:
            self._spawn(self._take_over(incarnation, reason))
        else:
            self._lost.add(incarnation)
            self._watch.remove(incarnation)

    async def _take_over(self, incarnation: str, reason: Loss) -> None:
        node = self._watch.node_of(incarnation)
        if not self._watch.remove(incarnation):
            return
        _log.warning("host_lost", incarnation=incarnation, reason=reason)
        self._hosts.end(incarnation)
        self.takeovers += 1
        hosts = self._watch.incarnations
        # The whole node may be lost. Its other hosts would seem to live until their own pings time out.
        elsewhere = {host for host in hosts if self._watch.node_of(host) != node}
        await self._ownership.adopt_orphans(hosts, hosts - elsewhere if elsewhere else ())
        if hosts:
            await asyncio.sleep(REFILL_PAUSE_SECONDS)
        await self._refill()

    # --- missing hosts ------------------------------------------------------------------------------------

    async def _missing(self) -> list[str]:
        nodes = await self._hosts.nodes()
        self._draining.intersection_update(nodes)
        wanted = [node for node in nodes if node not in self._draining]
        return missing_hosts(wanted, [*self._watch.nodes(), *self._creating.elements()], self._wanted)

    async def _create_missing(self) -> None:
        """Create all missing hosts during the start. Raises the failure of a creation if no host lives."""
        created = await asyncio.gather(
            *(self._hosts.create(node) for node in await self._missing()), return_exceptions=True
        )
        for each in created:
            if isinstance(each, str):
                self._watch.add(each)
        for each in created:
            if isinstance(each, BaseException) and not self._watch:
                raise each

    async def _refill(self) -> None:
        """Start creating the missing hosts, concurrently."""
        for node in await self._missing():
            self._creating[node] += 1
            self._spawn(self._add(node))

    async def _add(self, node: str) -> None:
        """Create a host on ``node`` and give it its share of shards."""
        try:
            self._watch.add(await self._hosts.create(node))
        except (PeerGoneError, PeerFailedError) as failure:
            self._failures[node] += 1
            pause = min(RETRY_SECONDS * 2 ** self._failures[node], RETRY_SECONDS_MAX)
            _log.warning("host_cannot_start", node=node, error=type(failure).__name__, reason=str(failure))
            await asyncio.sleep(pause)
            self._creating[node] -= 1
            self._spawn(self._refill())
            return
        self._creating[node] -= 1
        del self._failures[node]
        await self._rebalance()
        # It can be a reserve: routers connect to it now.
        await self._ownership.publish()

    async def _rebalance(self) -> None:
        await self._ownership.adopt_orphans(self._watch.incarnations)
        async with self._planned:
            await self._ownership.even_out(self._watch.incarnations)

    # --- replacement and drain ----------------------------------------------------------------------------

    async def _replace(self, old: str) -> str:
        """Create a successor of ``old`` on the same node, move all shards to it, and end ``old``.

        Returns the successor; ``old`` itself when it could not hand over all shards and stays; "" when there
        is no such host, or it was lost in the meantime.
        """
        node = self._watch.node_of(old)
        if node is None:
            return ""
        new = await self._hosts.create(node)
        async with self._planned:
            if old not in self._watch:
                # It was lost in the meantime; the takeover replaces it.
                self._hosts.end(new)
                return ""
            self._watch.add(new)
            await self._ownership.hand_off(old, [new])
            await self._ownership.adopt_orphans(self._watch.incarnations)
            if old not in self._watch:
                return ""
            if old in self._ownership.owners():
                return old
            self._watch.remove(old)
        await self._end(old)
        return new

    async def _drain(self, node: str) -> int | None:
        """Move all shards away from ``node`` and end its hosts; returns the number of hosts. ``None`` if no
        other node has hosts."""
        hosts = tuple(self._watch.incarnations)
        leaving = [host for host in hosts if self._watch.node_of(host) == node]
        staying = [host for host in hosts if self._watch.node_of(host) != node]
        if not staying:
            return None
        self._draining.add(node)
        async with self._planned:
            for host in leaving:
                if host in self._watch:
                    await self._ownership.hand_off(host, staying)
                    self._watch.remove(host)
            # Shards that a host could not hand over are taken from it.
            await self._ownership.adopt_orphans(self._watch.incarnations)
        await asyncio.gather(*(self._end(host) for host in leaving))
        return len(leaving)

    def _reserves(self, owners: Mapping[int, str | None]) -> set[str]:
        """The living hosts that should own no shards."""
        return reserves(owners, self._watch.node_by_host(), self._serving)

    async def _end(self, incarnation: str) -> None:
        """Stop a host that owns no shard, then kill it."""
        with suppress(PeerGoneError, PeerFailedError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._hosts.stop(incarnation)
        self._hosts.end(incarnation)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_essential(work, "coordinator")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
