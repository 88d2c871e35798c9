"""The supervisor: one process at the terminal that starts all others, in order, and ends them in reverse.

Ray restarts what dies (hosts excepted: the coordinator replaces them); the supervisor pings every process,
kills one that does not answer, and so makes a restarted one serve again. A local Ray that loses one of its
servers cannot be repaired, and does not give its processes back: then Ray and all processes are started anew
(``_rebuild``). In a cluster the supervisor looks which nodes there are, and gives each that joins the
processes that every node has.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import Any, Final

import msgspec
import structlog

from actors.cluster.beside import in_thread
from actors.cluster.environment import ClusterError, RestartError
from actors.cluster.exporter import Exporter
from actors.cluster.kept import Kept
from actors.cluster.left_over import end_left_over
from actors.cluster.local_node import servers
from actors.cluster.nodes import Nodes, here
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.ray_servers import RayServers
from actors.cluster.readiness import (
    Check,
    NotReadyError,
    accepts,
    all_owned,
    answers_http,
    answers_sql,
)
from actors.cluster.session import join, leave
from actors.cluster.standstill import end
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODES_SECONDS, Placed, ProcessSpec, place
from actors.settings import Settings
from engine.limits import RAY_LEAVE_SECONDS, READY_SECONDS, ROLE_START_SECONDS

EDGE: Final = "edge"
API: Final = "api-"
"""Names of processes whose port is checked, too."""
REBUILD_PAUSE_SECONDS: Final = 1.0
REBUILD_PAUSE_SECONDS_MAX: Final = 30.0
"""Pauses before Ray is started again when it would not start: twice as long each time."""
REPLACE_SECONDS: Final = 2 * ROLE_START_SECONDS
"""Time that a shard host has to begin and to take over everything from another."""
FIRST_NODE_LOOKS: Final = 60
"""How often a cluster is looked at that has no node yet which takes processes."""
NODE_START_SECONDS: Final = 60.0
"""What the processes of a node get to serve at first; the installation does not wait longer for them."""

_log = structlog.get_logger(__name__)
_decode_names = msgspec.msgpack.Decoder(list[str]).decode


@dataclass(frozen=True)
class Addresses:
    """Where the installation listens."""

    base_url: str
    vision_url: str
    iso8583_host: str
    iso8583_port: int
    metrics_url: str


class Supervisor:
    """All processes of an installation. ``stop`` twice, or after a ``start`` that was cut short, is
    harmless."""

    def __init__(self, settings: Settings, specs: Sequence[ProcessSpec]) -> None:
        self._settings = settings
        self._specs = specs
        self._peers = RayPeers(settings)
        self._nodes = Nodes(settings)
        self._ray = RayServers(servers)
        self._guarding: asyncio.Task[None] | None = None
        self._rebuilding = asyncio.Event()
        self._outlived: set[str] = set()
        """Processes of a Ray that has ended, until their successors serve."""
        self._own = ""
        self._kept: dict[str, Kept] = {}
        self._looking: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[str] | None = None
        self._joining: asyncio.Future[None] | None = None
        self._restarting = asyncio.Lock()
        self._exporter = Exporter(self._peers, self._processes, self._checks, settings.database_dsn)

    async def start(self) -> Addresses:
        """Start Ray and every process; returns when all of them serve. What another node cannot start
        is tried again later."""
        await self._join()
        self._failed = asyncio.get_running_loop().create_future()
        nodes = await self._first_nodes()
        self._own = here()
        if self._nodes.may_change:
            await end_left_over(self._settings, self._peers)
        placed = place(self._specs, nodes, self._own)
        self._launch(placed)
        await self._unless_ray_ends(self._all_serve(placed))
        await self._exporter.start(self._settings.metrics_host, self._settings.metrics_port)
        self._watch()
        if self._nodes.may_change:
            self._looking = asyncio.create_task(self._look_for_nodes())
        else:
            self._guarding = asyncio.create_task(self._guard_ray())
        return _addresses(self._settings)

    async def stop(self) -> None:
        """End the processes in reverse order, each after what it has under way, then Ray."""
        background = [task for task in (self._looking, self._guarding) if task is not None]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        for kept in self._kept.values():
            kept.unwatch()
        await self._exporter.stop()
        if not self._ray.look():
            in_reverse = reversed(tuple(self._kept.values()))
            for _, alike in groupby(in_reverse, key=lambda kept: kept.placed.spec.name):
                await asyncio.gather(*(kept.end() for kept in alike), return_exceptions=True)
        self._kept.clear()
        joining, self._joining = self._joining, None
        if joining is not None:
            await asyncio.wait((joining,), timeout=RAY_LEAVE_SECONDS)
            await self._leave()
        self._end_outlived()

    async def _join(self) -> None:
        # In a thread: on the main one Ray would install signal handlers that end this process at once, and
        # the loop could not hear that it should stop. In one that lives on: Ray's servers end with it.
        self._joining = asyncio.ensure_future(asyncio.to_thread(join, self._settings))
        await asyncio.shield(self._joining)
        _take_signals_back()
        self._ray.learn()

    async def _leave(self) -> None:
        """Leave Ray; of a local one, no process is left after ``_end_outlived``."""
        self._outlived |= self._ray.processes()
        if self._ray.missing:
            self._ray.kill()
        self._peers.forget()
        # What Ray cannot end in time ends with this process.
        with suppress(TimeoutError):
            await in_thread(leave, self._settings, seconds=RAY_LEAVE_SECONDS)
        # Looked up while it was still there.
        self._peers.forget()

    def _end_outlived(self) -> None:
        for where in self._outlived:
            end(where)
        self._outlived.clear()

    async def wait_failed(self) -> str:
        """Why the installation cannot go on: it returns only if that happens."""
        assert self._failed is not None, "started"
        return await asyncio.shield(self._failed)

    async def restart(self, say: Callable[[str], None]) -> None:
        """Put a new process of the code of now in the place of every one, one after the other, while the
        installation serves; ``say`` hears of each. The first that does not begin ends it: RestartError, and
        whatever was not reached yet goes on as it is."""
        async with self._restarting:
            renewing = asyncio.create_task(self._renew_all(say))
            rebuilding = asyncio.create_task(self._rebuilding.wait())
            try:
                await asyncio.wait((renewing, rebuilding), return_when=asyncio.FIRST_COMPLETED)
                if not renewing.done():
                    raise RestartError("Ray has ended meanwhile; everything is being started again")
                renewing.result()
            finally:
                for task in (renewing, rebuilding):
                    task.cancel()
                await asyncio.gather(renewing, rebuilding, return_exceptions=True)

    async def _renew_all(self, say: Callable[[str], None]) -> None:
        try:
            async with asyncio.timeout(ROLE_START_SECONDS):
                hosts = _decode_names(await self._peers.call(COORDINATOR, "hosts", b""))
        except (PeerGoneError, PeerFailedError, TimeoutError):
            raise RestartError("the coordinator does not answer") from None
        for host in hosts:
            await self._replace_host(host, say)
        for name, kept in tuple(self._kept.items()):
            began = time.monotonic()
            try:
                await kept.renew()
            except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
                raise RestartError(f"{name} does not begin: {failure!s}".rstrip(": ")) from None
            say(f"{name} is new ({time.monotonic() - began:.1f} s)")

    async def _replace_host(self, old: str, say: Callable[[str], None]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(REPLACE_SECONDS):
                new = (await self._peers.call(COORDINATOR, "replace", old.encode())).decode()
        except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
            raise RestartError(f"{old} could not be replaced: {failure}".rstrip(": ")) from None
        if new == old:
            raise RestartError(f"{old} could not give its shards away")
        say(f"{old} is {new or 'gone'} ({time.monotonic() - began:.1f} s)")

    def _processes(self) -> dict[str, str]:
        """What each is to be known by, whichever process is at work under it, and the name of that one."""
        return {known_by: kept.name for known_by, kept in self._kept.items()}

    def _checks(self) -> dict[str, Check]:
        """The readiness checks by part. Ports are those of this node."""
        settings = self._settings
        names = [kept.placed.spec.name for kept in self._kept.values() if not self._elsewhere(kept.placed)]
        checks: dict[str, Check] = {
            name: partial(self._peers.ping, kept.name) for name, kept in self._kept.items()
        }
        checks["shards"] = partial(all_owned, partial(self._peers.table, 0), self._peers.ping)
        if EDGE in names:
            checks["iso8583"] = partial(accepts, settings.iso8583_host, settings.iso8583_port)
        if any(name.startswith(API) for name in names):
            checks["api"] = partial(answers_http, f"{_addresses(settings).base_url}/healthz")
        checks["postgresql"] = partial(answers_sql, settings.database_dsn, READY_SECONDS)
        checks["ray"] = self._ray_answers
        return checks

    async def _ray_answers(self) -> None:
        if self._rebuilding.is_set():
            raise NotReadyError("is being started again")
        if missing := self._ray.look():
            raise NotReadyError(f"{missing} has ended")
        await self._nodes.head_answers()

    # --- a local Ray that has ended -----------------------------------------------------------------------

    async def _guard_ray(self) -> None:
        while True:
            _log.error("ray_lost", server=await self._ray.lost())
            self._rebuilding.set()
            await self._rebuild()

    async def _rebuild(self) -> None:
        """Start Ray and every process anew. Ray cannot adopt processes, so all are new in the end; but those
        that serve (edges, API servers, hosts) go on until their successors do."""
        began = time.monotonic()
        for kept in self._kept.values():
            kept.unwatch()
            if kept.placed.spec.called_by_name or kept.placed.spec.spread == "around":
                end(kept.where)
        await self._leave()
        for attempt in count():
            try:
                await self._join()
                break
            except ClusterError:
                _log.exception("ray_does_not_start")
                await asyncio.sleep(min(REBUILD_PAUSE_SECONDS * 2**attempt, REBUILD_PAUSE_SECONDS_MAX))
        self._own = here()
        self._kept.clear()
        self._launch(place(self._specs, [self._own], self._own))
        self._watch()
        serving, lost = asyncio.create_task(self._served()), asyncio.create_task(self._ray.lost())
        try:
            await asyncio.wait(
                (serving, lost), timeout=ROLE_START_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (serving, lost):
                task.cancel()
            await asyncio.gather(serving, lost, return_exceptions=True)
        self._end_outlived()
        if not self._ray.missing:
            self._rebuilding.clear()
            _log.warning("ray_rebuilt", seconds=round(time.monotonic() - began, 1))

    async def _served(self) -> None:
        """Returns when every process has served."""
        for kept in self._kept.values():
            await kept.served.wait()

    async def _unless_ray_ends(self, work: Coroutine[Any, Any, None]) -> None:
        """Raises ClusterError when a server of the local Ray ends before ``work`` does."""
        working, lost = asyncio.create_task(work), asyncio.create_task(self._ray.lost())
        try:
            await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClusterError(f"Ray has ended during the start: {self._ray.missing}")
            working.result()
        finally:
            for task in (working, lost):
                task.cancel()
            await asyncio.gather(working, lost, return_exceptions=True)

    # --- nodes that come and go ---------------------------------------------------------------------------

    async def _look_for_nodes(self) -> None:
        while True:
            await asyncio.sleep(NODES_SECONDS)
            self._follow(await self._nodes.living())

    def _follow(self, nodes: Sequence[str]) -> None:
        """Have on ``nodes``, and on no others, what every node has."""
        if not nodes:
            return
        wanted = {each.name: each for each in place(self._specs, nodes, self._own)}
        for name in [name for name, kept in self._kept.items() if kept.placed.pinned and name not in wanted]:
            _log.warning("node_left", node=self._kept[name].placed.node, name=name)
            self._kept.pop(name).abandon()
        for name, each in wanted.items():
            if name not in self._kept and each.pinned:
                _log.info("node_joined", node=each.node, name=name)
                kept = self._keep(each)
                kept.launch()
                kept.watch(self._on_failure)

    async def _first_nodes(self) -> list[str]:
        """Nodes may come up later than the supervisor. Raises ClusterError when none does."""
        for _ in range(FIRST_NODE_LOOKS):
            if nodes := await self._nodes.living():
                return nodes
            await asyncio.sleep(NODES_SECONDS)
        raise ClusterError("STANCHION_RAY_ADDRESS: no node of the cluster has processors to give")

    def _watch(self) -> None:
        for kept in self._kept.values():
            kept.watch(self._on_failure)

    def _launch(self, placed: Sequence[Placed]) -> None:
        """Ray begins a few at a time: first the coordinator, whose hosts are still to come, then the API
        servers, which are named last and have the most to load."""
        first, *others = [self._keep(each) for each in placed]
        for kept in (first, *reversed(others)):
            kept.launch()

    async def _all_serve(self, placed: Sequence[Placed]) -> None:
        """Return when those of this node serve, and those of other nodes do or have had their time."""
        # One after the other, so that whom one calls is there; what takes time, loading, is under way in all.
        for each in placed:
            if not self._elsewhere(each):
                await self._kept[each.name].serves()
        with suppress(TimeoutError):
            async with asyncio.timeout(NODE_START_SECONDS):
                others = [self._kept[each.name].serves() for each in placed if self._elsewhere(each)]
                await asyncio.gather(*others, return_exceptions=True)

    def _keep(self, each: Placed) -> Kept:
        kept = self._kept[each.name] = Kept(each, self._settings, self._peers)
        return kept

    def _elsewhere(self, each: Placed) -> bool:
        return each.pinned and each.node != self._own

    def _on_failure(self, failure: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(f"a process cannot be kept alive: {type(failure).__name__}")


def _take_signals_back() -> None:
    """Ray's native part puts handlers below Python's; setting the same ones again removes them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.getsignal(number))


def _addresses(settings: Settings) -> Addresses:
    return Addresses(
        base_url=f"{settings.web_scheme}://{settings.api_host}:{settings.api_port}",
        vision_url=f"http://{settings.api_host}:{settings.vision_port}",
        iso8583_host=settings.iso8583_host,
        iso8583_port=settings.iso8583_port,
        metrics_url=f"http://{settings.metrics_host}:{settings.metrics_port}/metrics",
    )
