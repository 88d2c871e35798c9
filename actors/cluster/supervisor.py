"""The supervisor: one process at the terminal that starts all others, in order, and ends them in reverse.

Ray restarts what dies (hosts excepted: the coordinator replaces them); the supervisor asks every process
now and then, which is also what makes a restarted one serve again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from actors.cluster.exporter import Exporter
from actors.cluster.peers import RayPeers
from actors.cluster.process import FOREVER, launch
from actors.cluster.session import join, leave
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings

PING_SECONDS: Final = 1.0
STOP_SECONDS: Final = 15.0
"""What one process gets to finish before it is killed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start: its name in the installation and the factory of its role (``module:function``)."""

    name: str
    factory: str


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

    def __init__(self, settings: Settings, processes: Sequence[ProcessSpec]) -> None:
        self._settings = settings
        self._processes = processes
        self._peers = RayPeers(settings)
        self._started: list[str] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._joining: asyncio.Future[None] | None = None
        self._exporter = Exporter(self._peers, [spec.name for spec in processes], settings.database_dsn)

    async def start(self) -> Addresses:
        """Start Ray and every process; returns when all of them serve."""
        # In a thread: on the main one Ray would install signal handlers that end this process at once, and
        # the loop could not hear that it should stop.
        self._joining = asyncio.ensure_future(asyncio.to_thread(join, self._settings))
        await asyncio.shield(self._joining)
        _take_signals_back()
        for spec in self._processes:
            launch(spec.factory, self._settings, spec.name, restarts=FOREVER)
            self._started.append(spec.name)
        for spec in self._processes:
            await self._peers.ping(spec.name)
        await self._exporter.start(self._settings.metrics_host, self._settings.metrics_port)
        self._watchers = [asyncio.create_task(self._watch(spec.name)) for spec in self._processes]
        return _addresses(self._settings)

    async def stop(self) -> None:
        """End the processes in reverse order, each after what it has under way, then Ray."""
        for watcher in self._watchers:
            watcher.cancel()
        await self._exporter.stop()
        for name in reversed(self._started):
            with suppress(PeerGoneError, PeerFailedError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._peers.ask(name, "stop")
            self._peers.kill(name)
        self._started.clear()
        joining, self._joining = self._joining, None
        if joining is not None:
            await asyncio.wait((joining,))
            leave(self._settings)

    async def wait_failed(self) -> str:
        """Why the installation cannot go on: it returns only if that happens."""
        done, _ = await asyncio.wait(self._watchers, return_when=asyncio.FIRST_COMPLETED)
        failure = next(iter(done)).exception()
        return f"a process cannot be kept alive: {type(failure).__name__}"

    async def _watch(self, name: str) -> None:
        """Ray starts a dead process again; being asked, it starts its role again."""
        while True:
            try:
                await self._peers.ping(name)
            except (PeerGoneError, PeerFailedError):
                _log.warning("process_lost", name=name)
            await asyncio.sleep(PING_SECONDS)


def _take_signals_back() -> None:
    """Ray's native part puts handlers below Python's; setting the same ones again removes them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.getsignal(number))


def _addresses(settings: Settings) -> Addresses:
    return Addresses(
        base_url=f"http://{settings.api_host}:{settings.api_port}",
        vision_url=f"http://{settings.api_host}:{settings.vision_port}",
        iso8583_host=settings.iso8583_host,
        iso8583_port=settings.iso8583_port,
        metrics_url=f"http://{settings.metrics_host}:{settings.metrics_port}/metrics",
    )
