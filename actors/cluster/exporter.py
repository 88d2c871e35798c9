"""The metrics port: ``/metrics`` for Prometheus, ``/healthz`` (this process answers) and ``/readyz`` (every
shard has an owner)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web

from actors.cluster.peers import RayPeers
from actors.journal.sizes import read_sizes
from actors.metrics import Figures, exposition
from actors.peers import PeerFailedError, PeerGoneError

ANSWER_SECONDS: Final = 1.0
"""A process that has not answered by then is left out of the page."""


class Exporter:
    """Asks every process for its figures at each scrape; ``processes`` are those of that moment: the label
    that each keeps when another takes its place, and its own name. ``stop`` twice is harmless."""

    def __init__(self, peers: RayPeers, processes: Callable[[], dict[str, str]], dsn: str) -> None:
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
        processes = self._processes() | {owner: owner for owner in sorted(filter(None, owners))}
        sizes = asyncio.create_task(read_sizes(self._dsn, ANSWER_SECONDS))
        answers = await asyncio.gather(*map(self._figures, processes.values()))
        figures = {"database": await sizes}
        figures |= {label: each for label, each in zip(processes, answers, strict=True) if each is not None}
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=exposition(figures), headers=headers)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        owners = await self._owners()
        ready = bool(owners) and None not in owners and await self._clocks_trusted(filter(None, owners))
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503)

    async def _clocks_trusted(self, hosts: Iterable[str]) -> bool:
        """Whether no host refuses to decide; one that does not answer is found by its own signs."""
        answers = await asyncio.gather(*map(self._figures, hosts))
        return not any(figures and figures.get("stanchion_clock_refused") for figures in answers)

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
