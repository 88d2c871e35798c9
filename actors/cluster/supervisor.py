"""The supervisor: starts all processes of an installation in order, keeps them alive, and ends them in
reverse order. It runs in the process of ``stanchion up``.

Ray restarts processes that die (except hosts, which the coordinator replaces). The supervisor pings every
process and kills one that does not answer; its ping also starts the role of a restarted process. A local Ray
that loses one of its servers cannot be repaired and cannot adopt its processes, so the supervisor starts Ray
and all processes again (``_rebuild``). In a cluster, processes outlive the supervisor and Ray's head, and the
next supervisor adopts them; it launches the processes of ``each`` node on nodes that join.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

import msgspec
import structlog
from ray.exceptions import RayError

from actors.cluster.environment import ClusterError, RestartError
from actors.cluster.exporter import Exporter
from actors.cluster.fork_server_process import ForkServer
from actors.cluster.garbage_collection import spare_loaded_objects
from actors.cluster.installation_checks import EDGE, installation_checks
from actors.cluster.listen_addresses import ListenAddresses, listen_addresses
from actors.cluster.nodes import Nodes, own_node
from actors.cluster.orphans import adopt_processes
from actors.cluster.peers import RayPeers
from actors.cluster.process_set import ProcessSet
from actors.cluster.process_state import kill_process
from actors.cluster.ray_connection import RayConnection
from actors.cluster.readiness import Check, NotReadyError
from actors.cluster.rolling_restart import replace_all
from actors.network.links.status import METHOD, LinkStatus, decode_statuses
from actors.peers import PeerFailedError, PeerGoneError
from actors.periodic import PeriodicTask
from actors.placement import NODES_SECONDS, ProcessSpec
from actors.settings import Settings
from actors.tls import ServerTls
from engine.limits import READY_SECONDS, ROLE_START_SECONDS

REBUILD_PAUSE_SECONDS: Final = 1.0
REBUILD_PAUSE_SECONDS_MAX: Final = 30.0
"""Exponential back-off after a failed start of Ray: doubled after each failure, up to this."""
FIRST_NODE_CHECKS: Final = 60
"""Checks, ``NODES_SECONDS`` apart, of a cluster that has no node with processors yet."""

_log = structlog.get_logger(__name__)


class ClusterSupervisor:
    """All processes of an installation. ``stop`` is safe to call twice, and after a ``start`` that was cut
    short."""

    def __init__(
        self, settings: Settings, specs: Sequence[ProcessSpec], fork_server: ForkServer | None = None
    ) -> None:
        self._settings = settings
        self._peers = RayPeers(settings)
        self._nodes = Nodes(settings)
        self._ray = RayConnection(settings, self._peers, fork_server)
        self._processes = ProcessSet(settings, specs, self._peers, self._on_failure)
        self._exporter = Exporter(
            self._peers, self._processes.current_names, self._checks, settings.database_dsn
        )
        self._node_watch = PeriodicTask(
            "node-watch",
            self._follow_nodes,
            NODES_SECONDS,
            delay=NODES_SECONDS,
            tolerated=(RayError, RuntimeError, ValueError),
        )
        self._ray_guard: asyncio.Task[None] | None = None
        self._rebuilding = asyncio.Event()
        self._restarting = asyncio.Lock()
        self._failed: asyncio.Future[str] | None = None

    async def join(self) -> None:
        """Start a local Ray, or join the cluster of the settings. Raises ClusterError."""
        await self._ray.join()

    async def start(self) -> ListenAddresses:
        """Start every process, after ``join``; returns when all processes of this node serve. Processes of
        other nodes that do not start are retried in the background. Raises ClusterError."""
        self._failed = asyncio.get_running_loop().create_future()
        nodes = await self._first_nodes()
        running: dict[str, str] = {}
        if self._nodes.may_change:
            wanted = self._processes.placed(nodes, own_node())
            running = await adopt_processes(self._settings, self._peers, wanted)
        self._processes.launch(nodes, own_node(), running)
        await self._ray.unless_lost(asyncio.create_task(self._processes.wait_serving()))
        settings = self._settings
        tls = ServerTls.of_metrics(settings)
        await self._exporter.start(settings.metrics_host, settings.metrics_port, tls)
        self._processes.watch()
        if self._nodes.may_change:
            self._node_watch.start()
        else:
            self._ray_guard = asyncio.create_task(self._guard_ray())
            self._ray_guard.add_done_callback(self._ray_guard_ended)
        spare_loaded_objects()
        return listen_addresses(self._settings)

    async def stop(self) -> None:
        """End the processes in reverse order, each after its open work, then Ray."""
        await self._node_watch.stop()
        if self._ray_guard is not None:
            self._ray_guard.cancel()
            await asyncio.gather(self._ray_guard, return_exceptions=True)
        self._processes.unwatch()
        await self._exporter.stop()
        if not self._ray.servers.check():
            await self._processes.end()
        self._processes.clear()
        await self._ray.leave_if_joined()
        self._ray.end_outliving()

    async def wait_failed(self) -> str:
        """Wait until the installation cannot continue; returns the reason."""
        assert self._failed is not None, "start comes first"
        return await asyncio.shield(self._failed)

    async def restart(self, report: Callable[[str], None]) -> None:
        """Replace every process by a new one that runs the current code, one after the other, while the
        installation serves. ``report`` receives one line for each. Raises RestartError at the first process
        that cannot be replaced, or when Ray ends; the remaining processes continue unchanged."""
        async with self._restarting:
            await self._ray.renew_fork_server()
            replacing = asyncio.create_task(replace_all(self._peers, self._processes, report))
            rebuilding = asyncio.create_task(self._rebuilding.wait())
            try:
                await asyncio.wait((replacing, rebuilding), return_when=asyncio.FIRST_COMPLETED)
                if not replacing.done():
                    raise RestartError("Ray has ended; the supervisor is starting everything again")
                replacing.result()
            finally:
                for task in (replacing, rebuilding):
                    task.cancel()
                await asyncio.gather(replacing, rebuilding, return_exceptions=True)

    async def links(self) -> list[LinkStatus]:
        """The states of all links at all edges that answer."""
        edges = [each.name for each in self._processes if each.placed.spec.name == EDGE]
        answers = await asyncio.gather(*map(self._links_of, edges))
        return [status for statuses in answers for status in statuses]

    async def _links_of(self, edge: str) -> list[LinkStatus]:
        try:
            async with asyncio.timeout(READY_SECONDS):
                statuses = decode_statuses(await self._peers.call(edge, METHOD, b""))
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return []
        return [msgspec.structs.replace(status, edge=edge) for status in statuses]

    def _checks(self) -> dict[str, Check]:
        return installation_checks(self._settings, self._peers, self._processes, self._ray_answers)

    async def _ray_answers(self) -> None:
        if self._rebuilding.is_set():
            raise NotReadyError("is being started again")
        if missing := self._ray.servers.check():
            raise NotReadyError(f"{missing} has ended")
        await self._nodes.head_answers()

    def _on_failure(self, failure: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(f"processes cannot be kept alive: {type(failure).__name__}")

    # --- a local Ray that has ended -----------------------------------------------------------------------

    async def _guard_ray(self) -> None:
        while True:
            _log.error("ray_lost", server=await self._ray.servers.lost())
            self._rebuilding.set()
            await self._rebuild()

    def _ray_guard_ended(self, guard: asyncio.Task[None]) -> None:
        if not guard.cancelled():
            self._on_failure(guard.exception() or RuntimeError())

    async def _rebuild(self) -> None:
        """Start Ray and every process again. Ray cannot adopt running processes, so all processes are new.
        Edges, API servers and hosts of the lost Ray serve until their successors do."""
        began = time.monotonic()
        for process in self._processes:
            process.unwatch()
            if process.placed.spec.singleton or process.placed.spec.spread == "round_robin":
                kill_process(process.identity)
        await self._ray.leave()
        await self._join_with_back_off()
        self._nodes.forget()
        self._processes.launch([own_node()], own_node())
        self._processes.watch()
        await self._wait_served_or_lost()
        self._ray.end_outliving()
        if not self._ray.servers.missing:
            self._rebuilding.clear()
            _log.warning("ray_rebuilt", seconds=round(time.monotonic() - began, 1))

    async def _join_with_back_off(self) -> None:
        for attempt in count():
            try:
                await self._ray.join()
            except ClusterError:
                _log.exception("ray_does_not_start")
                await asyncio.sleep(min(REBUILD_PAUSE_SECONDS * 2**attempt, REBUILD_PAUSE_SECONDS_MAX))
            else:
                return

    async def _wait_served_or_lost(self) -> None:
        """Wait until every process has served, Ray has ended again, or ``ROLE_START_SECONDS`` have passed."""
        serving = asyncio.create_task(self._processes.wait_all_served())
        lost = asyncio.create_task(self._ray.servers.lost())
        try:
            await asyncio.wait(
                (serving, lost), timeout=ROLE_START_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (serving, lost):
                task.cancel()
            await asyncio.gather(serving, lost, return_exceptions=True)

    # --- nodes that join and leave ------------------------------------------------------------------------

    async def _follow_nodes(self) -> None:
        self._processes.follow(await self._nodes.living())

    async def _first_nodes(self) -> list[str]:
        """Wait for the first nodes, which can start after the supervisor. Raises ClusterError when none
        does."""
        for _ in range(FIRST_NODE_CHECKS):
            if nodes := await self._nodes.living():
                return nodes
            await asyncio.sleep(NODES_SECONDS)
        raise ClusterError("STANCHION_RAY_ADDRESS: no node of the cluster has processors to give")
