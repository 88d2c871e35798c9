"""One HTTP port: uvicorn with connection limits and, optionally, TLS."""

from __future__ import annotations

import asyncio
import functools
import socket
from contextlib import suppress
from typing import Any, Final

import uvicorn

from actors.connections import Admission, ConnectionLimits, ConnectionTable
from actors.settings import Settings
from actors.tls import ServerTls, TlsListener
from api.http.protocol import ProblemProtocol

STOP_SECONDS: Final = 5
TICK_SECONDS: Final = 1.0
"""Interval at which the ``Date`` of answers is renewed: it has whole seconds (RFC 9110, section 5.6.7)."""


class HttpServer(uvicorn.Server):
    """Serves one ASGI application on listening sockets: ``await serve([socket])`` until ``leave``."""

    def __init__(
        self,
        app: Any,
        *,
        table: ConnectionTable | None = None,
        tls: ServerTls | None = None,
        base_url: str | None = None,
    ) -> None:
        """``base_url``: the documentation host in the ``type`` of problems, if there is one."""
        self._table = table or ConnectionTable(ConnectionLimits())
        self._tls = tls
        self._leaving = asyncio.Event()
        config = uvicorn.Config(
            app,
            http=functools.partial(ProblemProtocol, self._table, base_url),  # type: ignore[arg-type]
            ws="none",
            loop="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=None,
            timeout_keep_alive=self._table.limits.idle_seconds,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        self._table.start()
        if self._tls is None:
            await super().startup(sockets)
            return
        self.servers: list[Any] = [
            TlsListener(listener, self._protocol, self._tls, self._table) for listener in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        """Serve until ``leave``. uvicorn's own loop wakes an idle process ten times a second."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._leaving.wait()

    def leave(self) -> None:
        """Let ``serve`` return after the running requests. Safe to call twice."""
        self.should_exit = True
        self._leaving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and let running requests end."""
        await super().shutdown(sockets)
        self._table.stop()

    def _protocol(self, admission: Admission) -> ProblemProtocol:
        made: Any = self.config.http_protocol_class
        protocol: ProblemProtocol = made(
            admission, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def connection_table(settings: Settings) -> ConnectionTable:
    """The connections of one port, within the limits of ``settings``."""
    limits = ConnectionLimits(
        connections_max=settings.connections_max, per_address_max=settings.connections_per_address_max
    )
    return ConnectionTable(limits, settings.trusted_proxies)
