"""The metrics port: ``/metrics`` for Prometheus, ``/healthz`` (the supervisor answers) and ``/readyz`` (every
part of the installation answers: ``readiness``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from actors.cluster.peers import RayPeers
from actors.cluster.readiness import Check, not_ready
from actors.journal.sizes import read_sizes
from actors.metrics import Figures, Labels, exposition
from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import READY_SECONDS

ANSWER_SECONDS: Final = 1.0
"""A process that has not answered by then counts as not serving; its other figures are left out."""
STOP_SECONDS: Final = 2.0
"""Time that requests under way have at the end."""
SUPERVISOR: Final = "supervisor"
"""The process of the figures that the exporter has itself."""
_AWAY: Final[Figures] = {"stanchion_process_serving": 0.0}


class Exporter:
    """Asks every process for its figures at each scrape. ``stop`` twice is harmless.

    ``processes`` are those of that moment: the label that each keeps when another takes its place, and its
    own name. ``checks`` are the readiness checks of that moment by part.
    """

    def __init__(
        self,
        peers: RayPeers,
        processes: Callable[[], dict[str, str]],
        checks: Callable[[], Mapping[str, Check]],
        dsn: str,
    ) -> None:
        self._peers = peers
        self._dsn = dsn
        self._processes = processes
        self._checks = checks
        self._checking: asyncio.Task[dict[str, str]] | None = None
        self._hosts: set[str] = set()
        """The owners of the last routing table that there was."""
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, _request: web.Request) -> web.Response:
        # Without a coordinator, the hosts that there were are still asked.
        self._hosts = await self._owners() or self._hosts
        processes = self._processes() | {host: host for host in sorted(self._hosts)}
        sizes = asyncio.create_task(read_sizes(self._dsn, ANSWER_SECONDS))
        ready = asyncio.create_task(self._ready_figure())
        answers = await asyncio.gather(*map(self._figures, processes.values()))
        figures = {SUPERVISOR: await ready, "database": await sizes}
        figures |= dict(zip(processes, answers, strict=True))
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=exposition(figures), headers=headers)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        missing = await self._not_ready()
        if not missing:
            return web.Response(text="ready\n")
        lines = "".join(f"{part}: {reason}\n" for part, reason in missing.items())
        return web.Response(text=f"not ready\n{lines}", status=503)

    async def _ready_figure(self) -> Figures:
        missing = await self._not_ready()
        ready: dict[Labels, float] = {(part,): float(part not in missing) for part in self._checks()}
        return {"stanchion_ready": ready}

    async def _not_ready(self) -> dict[str, str]:
        """Requests that come while the parts are being asked share the answer."""
        if self._checking is None:
            self._checking = asyncio.create_task(not_ready(self._checks(), READY_SECONDS))
            self._checking.add_done_callback(self._checked)
        return await asyncio.shield(self._checking)

    def _checked(self, _checking: asyncio.Task[dict[str, str]]) -> None:
        self._checking = None

    async def _owners(self) -> set[str]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return {owner for owner in (await self._peers.table(0)).owners if owner is not None}
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return set()

    async def _figures(self, name: str) -> Figures:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                figures: Figures = await self._peers.ask(name, "figures")
                return figures
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return _AWAY
