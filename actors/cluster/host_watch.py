"""The living shard hosts as the coordinator sees them, and their failure detection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, KeysView
from functools import partial
from typing import NamedTuple, Protocol

from actors.cluster.liveness import Checks, Loss, ProbePolicy, ends_before, probe, wait_lost
from actors.essential import start_essential
from actors.peers import PeerGoneError


class Hosts(Protocol):
    """Creates, calls and ends shard hosts. Every call except ``end`` raises PeerGoneError for a dead host.
    Nodes have the names that ``nodes`` returns."""

    @property
    def nodes_may_change(self) -> bool: ...
    async def nodes(self) -> list[str]: ...
    def node_of(self, incarnation: str) -> str: ...
    async def create(self, node: str) -> str: ...
    async def living(self) -> set[str]: ...
    async def ping(self, incarnation: str) -> None: ...
    def is_halted(self, incarnation: str) -> bool: ...
    async def death(self, incarnation: str) -> None: ...
    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes: ...
    async def stop(self, incarnation: str) -> None: ...
    def end(self, incarnation: str) -> None: ...


class _Watched(NamedTuple):
    node: str
    watcher: asyncio.Task[None]
    lost: asyncio.Event


class HostWatch:
    """The hosts that are known to live. ``on_lost`` is called once for each host that is lost; the host
    remains in the set until ``remove``.

    Until ``start_probing`` only the end of its connection shows that a host is lost: a coordinator that does
    not lead needs no pings, and each costs two processes their sleep.
    """

    def __init__(self, hosts: Hosts, on_lost: Callable[[str, Loss], None], probes: ProbePolicy) -> None:
        self._hosts = hosts
        self._on_lost = on_lost
        self._probes = probes
        self._checks = Checks(probes.check_seconds)
        self._probing = asyncio.Event()
        self._watched: dict[str, _Watched] = {}

    @property
    def incarnations(self) -> KeysView[str]:
        """All watched hosts: a live view, which changes with ``add`` and ``remove``."""
        return self._watched.keys()

    def __contains__(self, incarnation: str) -> bool:
        return incarnation in self._watched

    def __bool__(self) -> bool:
        return bool(self._watched)

    def node_of(self, incarnation: str) -> str | None:
        """The node of a watched host."""
        watched = self._watched.get(incarnation)
        return None if watched is None else watched.node

    def node_by_host(self) -> dict[str, str]:
        """The node of each watched host, by incarnation."""
        return {incarnation: watched.node for incarnation, watched in self._watched.items()}

    def nodes(self) -> list[str]:
        """The node of each watched host."""
        return [watched.node for watched in self._watched.values()]

    def start_probing(self) -> None:
        """From now on also ping the hosts, and check their state in the kernel. Safe to call twice."""
        self._probing.set()

    async def answers(self, incarnation: str) -> bool:
        """Ping a host once."""
        return await probe(partial(self._hosts.ping, incarnation), self._probes) is None

    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes:
        """Call a watched host. Raises PeerGoneError as soon as it is lost: a host that hangs never
        answers."""
        watched = self._watched.get(incarnation)
        if watched is None or watched.lost.is_set():
            raise PeerGoneError(incarnation)
        calling = asyncio.ensure_future(self._hosts.call(incarnation, method, payload))
        lost = asyncio.create_task(watched.lost.wait())
        try:
            await asyncio.wait((calling, lost), return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise PeerGoneError(incarnation)
            return calling.result()
        finally:
            for task in (calling, lost):
                task.cancel()
            await asyncio.gather(calling, lost, return_exceptions=True)

    def add(self, incarnation: str) -> None:
        """Watch a host that serves."""
        if incarnation in self._watched:
            return
        lost = asyncio.Event()
        watcher = start_essential(self._watch(incarnation, lost), "host-watch")
        self._watched[incarnation] = _Watched(self._hosts.node_of(incarnation), watcher, lost)

    def remove(self, incarnation: str) -> bool:
        """Stop watching a host; returns whether it was watched."""
        watched = self._watched.pop(incarnation, None)
        if watched is not None:
            watched.watcher.cancel()
            watched.lost.set()
        return watched is not None

    async def stop(self) -> None:
        """Stop watching; the set keeps its hosts."""
        watchers = [watched.watcher for watched in self._watched.values()]
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def clear(self) -> list[str]:
        """Remove all hosts; returns them. Call ``stop`` first."""
        incarnations = list(self._watched)
        self._watched.clear()
        return incarnations

    async def _watch(self, incarnation: str, lost: asyncio.Event) -> None:
        death = partial(self._hosts.death, incarnation)
        reason: Loss = "ended"
        if self._probing.is_set() or not await ends_before(death, self._probing):
            reason = await wait_lost(
                partial(self._hosts.ping, incarnation),
                death,
                partial(self._hosts.is_halted, incarnation),
                self._probes,
                self._checks,
            )
        lost.set()
        self._on_lost(incarnation, reason)
