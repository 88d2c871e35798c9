"""Pages of the metrics port: ``/metrics`` for Prometheus, ``/healthz`` (the supervisor answers), ``/livez``
(Ray answers too) and ``/readyz`` (every part of the installation answers, see ``readiness``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web

from actors.cluster.metrics_port import MetricsPort
from actors.cluster.peers import RayPeers
from actors.cluster.readiness import Check, NotReadyError, not_ready
from actors.exposition import exposition
from actors.journal.sizes import read_sizes
from actors.metrics import Figures, Labels
from actors.peers import PeerFailedError, PeerGoneError
from actors.tls import ServerTls
from engine.limits import READY_SECONDS

ANSWER_SECONDS: Final = 1.0
"""A process that does not answer in this time counts as not serving; its other figures are left out."""
SUPERVISOR: Final = "supervisor"
"""The process label of the exporter's own figures."""
RAY: Final = "ray"
"""The readiness check of Ray's head."""
_decode_names = msgspec.msgpack.Decoder(list[str]).decode
_NOT_SERVING: Final[Figures] = {"stanchion_process_serving": 0.0}


class Exporter:
    """Collects the figures of every process at each scrape. ``stop`` is safe to call twice.

    ``processes`` returns the current processes: the label, which a successor inherits, and the current name.
    ``checks`` returns the current readiness checks by part.
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
        """The shard hosts that the coordinator has named last, reserves included."""
        self._port: MetricsPort | None = None

    async def start(self, host: str, port: int, tls: ServerTls | None = None) -> None:
        """Listen; without ``tls`` on plain HTTP."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/livez", self._liveness)
        app.router.add_get("/readyz", self._readiness)
        self._port = MetricsPort(app, tls=tls)
        await self._port.start(host, port)

    async def stop(self) -> None:
        if self._port is not None:
            await self._port.stop()
            self._port = None

    async def _metrics(self, _request: web.Request) -> web.Response:
        # While the coordinator is away, ask the hosts that it last named.
        self._hosts = await self._known_hosts() or self._hosts
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

    async def _liveness(self, _request: web.Request) -> web.Response:
        checks = {part: check for part, check in self._checks().items() if part == RAY}
        return _page(await not_ready(checks, READY_SECONDS))

    async def _readiness(self, _request: web.Request) -> web.Response:
        return _page(await self._not_ready())

    async def _ready_figure(self) -> Figures:
        missing = await self._not_ready()
        ready: dict[Labels, float] = {(part,): float(part not in missing) for part in self._checks()}
        return {"stanchion_ready": ready}

    async def _not_ready(self) -> dict[str, str]:
        """Concurrent requests share one check."""
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
            self._checking.add_done_callback(self._checked)
        return await asyncio.shield(self._checking)

    def _checked(self, _checking: asyncio.Task[dict[str, str]]) -> None:
        self._checking = None

    async def _check(self) -> dict[str, str]:
        return await not_ready(dict(self._checks()) | {"clock": self._clock_trusted}, READY_SECONDS)

    async def _clock_trusted(self) -> None:
        """Check that no host refuses to decide. Other checks cover a host that does not answer."""
        answers: list[Figures] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS / 2):
                answers = await asyncio.gather(*map(self._figures, await self._known_hosts()))
        if any(figures and figures.get("stanchion_clock_refused") for figures in answers):
            raise NotReadyError("a shard host refuses to decide by the database's clock")

    async def _known_hosts(self) -> set[str]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return set(_decode_names(await self._peers.coordinate("hosts", b"")))
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return set()

    async def _figures(self, name: str) -> Figures:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                figures: Figures = await self._peers.ask(name, "figures")
                return figures
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return _NOT_SERVING


def _page(missing: Mapping[str, str]) -> web.Response:
    """The answer of a check: 200, or 503 with the reason of each part."""
    if not missing:
        return web.Response(text="ready\n")
    lines = "".join(f"{part}: {reason}\n" for part, reason in missing.items())
    return web.Response(text=f"not ready\n{lines}", status=503)
