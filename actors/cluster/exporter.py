"""The metrics port: ``/metrics`` for Prometheus, ``/healthz`` (this process answers) and ``/readyz`` (every
shard has an owner)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from actors.cluster.peers import RayPeers
from actors.journal.sizes import read_sizes
from actors.metrics import Figures, exposition
from actors.peers import PeerFailedError, PeerGoneError

ANSWER_SECONDS: Final = 1.0
"""A process that has not answered by then is left out of the page."""


class Exporter:
    """Asks every process for its figures at each scrape; ``processes`` names those of that moment. ``stop``
    twice is harmless."""

    def __init__(self, peers: RayPeers, processes: Callable[[], list[str]], dsn: str) -> None:
        self._peers = peers
        self._dsn = dsn
        self._processes = processes
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, _request: web.Request) -> web.Response:
        owners = await self._owners()
        names = [*self._processes(), *sorted(owner for owner in owners if owner is not None)]
        sizes = asyncio.create_task(read_sizes(self._dsn, ANSWER_SECONDS))
        answers = await asyncio.gather(*(self._figures(name) for name in names))
        figures = {"database": await sizes}
        figures |= {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=exposition(figures), headers=headers)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        owners = await self._owners()
        ready = bool(owners) and None not in owners
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503)

    async def _owners(self) -> set[str | None]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return set((await self._peers.table(0)).owners)
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return set()

    async def _figures(self, name: str) -> Figures | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                figures: Figures = await self._peers.ask(name, "figures")
                return figures
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return None
