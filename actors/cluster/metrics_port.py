"""The metrics port's server: one request for each connection, and no connection outlives a scrape."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from actors.connections import ConnectionLimits, ConnectionTable, OneRequestConnection
from engine.limits import METRICS_CONNECTION_SECONDS, METRICS_CONNECTIONS_MAX

STOP_SECONDS: Final = 2.0
"""Time for open scrapes to finish after the server has stopped listening."""
LIMITS: Final = ConnectionLimits(
    connections_max=METRICS_CONNECTIONS_MAX, per_address_max=METRICS_CONNECTIONS_MAX // 2
)


class MetricsPort:
    """Serves ``app`` on one address. ``stop`` is safe to call twice."""

    def __init__(self, app: web.Application, table: ConnectionTable | None = None) -> None:
        app.on_response_prepare.append(_close_after)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
        )
        self._table = table or ConnectionTable(LIMITS)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        await self._runner.setup()
        self._table.start()
        self._server = await asyncio.get_running_loop().create_server(self._connection, host, port)

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        self._table.stop()
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._runner.cleanup()

    def _connection(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        return OneRequestConnection(server(), self._table, METRICS_CONNECTION_SECONDS)


async def _close_after(_request: web.Request, response: web.StreamResponse) -> None:
    # Scrapes are seconds apart: a new connection for each costs less than an idle one.
    response.force_close()
