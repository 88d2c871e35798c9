"""The metrics port's server: one request for each connection, and no connection outlives a scrape."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from aiohttp import web

from actors.connections import Admission, ConnectionLimits, ConnectionTable, OneRequestConnection
from actors.tls import ServerTls, TlsListener
from engine.limits import METRICS_CONNECTION_SECONDS, METRICS_CONNECTIONS_MAX

STOP_SECONDS: Final = 2.0
"""Time for open scrapes to finish after the server has stopped listening."""
LIMITS: Final = ConnectionLimits(
    connections_max=METRICS_CONNECTIONS_MAX, per_address_max=METRICS_CONNECTIONS_MAX // 2
)


class MetricsPort:
    """Serves ``app`` on one address. ``stop`` is safe to call twice."""

    def __init__(
        self, app: web.Application, table: ConnectionTable | None = None, tls: ServerTls | None = None
    ) -> None:
        """``tls``: ``None`` serves plain HTTP."""
        app.on_response_prepare.append(_close_after)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
        )
        self._table = table or ConnectionTable(LIMITS)
        self._tls = tls
        self._listener: socket.socket | None = None
        self._server: asyncio.Server | TlsListener | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ``OSError``."""
        await self._runner.setup()
        self._table.start()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        if self._tls is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._connection, sock=self._listener)
        else:
            self._server = TlsListener(self._listener, self._connection, self._tls, self._table)

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        self._table.stop()
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._runner.cleanup()

    def _connection(self, admission: Admission | None = None) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        return OneRequestConnection(server(), self._table, METRICS_CONNECTION_SECONDS, admission)


async def _close_after(_request: web.Request, response: web.StreamResponse) -> None:
    # Scrapes are seconds apart: a new connection for each costs less than an idle one.
    response.force_close()
