"""The supervisor's connection to Ray: joining, leaving, and the processes that outlive a local Ray."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import structlog

from actors.cluster.daemon_thread import in_daemon_thread, wait_idle
from actors.cluster.environment import ClusterError
from actors.cluster.fork_server_process import ForkServer
from actors.cluster.local_node import servers
from actors.cluster.peers import RayPeers
from actors.cluster.process_state import kill_process
from actors.cluster.ray_servers import RayServers
from actors.cluster.ray_session import join, leave
from actors.periodic import PeriodicTask
from actors.settings import Settings
from engine.limits import FORK_SERVER_WATCH_SECONDS, RAY_IDLE_SECONDS, RAY_LEAVE_SECONDS, RAY_LOST_SECONDS

_log = structlog.get_logger(__name__)


class RayConnection:
    """Joins and leaves Ray, also several times. ``servers`` watches the servers of a local Ray."""

    def __init__(self, settings: Settings, peers: RayPeers, fork_server: ForkServer | None = None) -> None:
        self._settings = settings
        self._peers = peers
        self._fork_server = fork_server
        self.servers = RayServers(servers, fork_server=fork_server)
        self._fork_server_watch = PeriodicTask(
            "fork-server",
            self._revive_fork_server,
            FORK_SERVER_WATCH_SECONDS,
            delay=FORK_SERVER_WATCH_SECONDS,
            tolerated=(OSError,),
        )
        self._joining: asyncio.Future[None] | None = None
        self._outliving: set[str] = set()
        """Identities of processes that a Ray has started and that still run after its end."""

    async def join(self) -> None:
        """Start a local Ray, or join the cluster of the settings. Raises ClusterError."""
        # In a thread: on the main thread Ray would install signal handlers that end this process at once, and
        # the event loop could not stop the installation in order. The thread stays alive, because Ray's
        # servers end with the thread that started them.
        if self._fork_server is not None:
            self._fork_server.start()
            self._fork_server_watch.start()
        self._joining = asyncio.ensure_future(asyncio.to_thread(join, self._settings, self._fork_server))
        await asyncio.shield(self._joining)
        _restore_signal_handlers()
        self.servers.learn()
        self._peers.reopen()

    async def leave(self) -> None:
        """Leave Ray. Processes of a local Ray that still run afterwards end with ``end_outliving``. Raises
        TimeoutError when Ray does not end; it must not be joined again then."""
        await self._fork_server_watch.stop()
        self._outliving |= self.servers.processes()
        await self._peers.close()
        # Before the head is killed: open calls end soon while it answers.
        await wait_idle(RAY_IDLE_SECONDS)
        if self.servers.missing:
            self.servers.kill()
        await in_daemon_thread(leave, self._settings, seconds=RAY_LOST_SECONDS)

    async def leave_if_joined(self) -> None:
        """Leave Ray if it was joined, or is being joined."""
        joining, self._joining = self._joining, None
        if joining is not None:
            await asyncio.wait((joining,), timeout=RAY_LEAVE_SECONDS)
            # Servers that do not end in time end with this process.
            with suppress(TimeoutError):
                async with asyncio.timeout(RAY_LEAVE_SECONDS):
                    await self.leave()

    async def _revive_fork_server(self) -> None:
        if self._fork_server is None or self._fork_server.pid is not None:
            return
        if await asyncio.to_thread(self._fork_server.start):
            _log.warning("fork_server_started_again")

    async def renew_fork_server(self) -> None:
        """Have later processes run the current code."""
        if self._fork_server is not None:
            await asyncio.to_thread(self._fork_server.renew)

    def end_outliving(self) -> None:
        """Kill the processes of earlier Rays that still run."""
        for identity in self._outliving:
            kill_process(identity)
        self._outliving.clear()

    async def unless_lost(self, work: asyncio.Future[None]) -> None:
        """Wait for ``work``. Raises ClusterError, and cancels ``work``, when a server of the local Ray ends
        first."""
        lost = asyncio.create_task(self.servers.lost())
        try:
            await asyncio.wait((work, lost), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClusterError(f"Ray has ended during the start: {self.servers.missing}")
            work.result()
        finally:
            for task in (work, lost):
                task.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)


def _restore_signal_handlers() -> None:
    """Remove the handlers that Ray's native part installs below Python's, by setting Python's again."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.getsignal(number))
