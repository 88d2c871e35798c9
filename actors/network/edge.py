"""The network edge: a TCP server that answers the ISO 8583 messages of networks.

A message takes one way through the modules of this package::

    EdgeConnection ── frame ──> Edge.received ──> RequestQueue ──> Dispatcher ──> Respondent ──> owner
          ^                         │ overloaded: 91                   │ 0800, malformed   │
          └────────── answer ───────┴──────────────────────────────────┴───────────────────┘

The edge stores nothing. After a crash the network repeats its messages, and the owner's journal returns the
same answers. A peer that is slow, silent or malformed, or does not read its answers, loses its connection;
other connections are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.network.connection import EdgeConnection
from actors.network.connection_slots import ConnectionSlots
from actors.network.dispatch import Dispatcher
from actors.network.edge_counts import EdgeCounts
from actors.network.request_queue import RequestQueue
from actors.network.respondent import Respondent
from actors.periodic import PeriodicTask
from engine.iso8583.fast_decline import authorization_prefixes, fast_decline
from engine.iso8583.framing import BadFrame
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import DEADLINE_EXCEEDED
from engine.limits import (
    EDGE_CONNECTIONS_MAX,
    EDGE_CONNECTIONS_PER_ADDRESS_MAX,
    EDGE_IDLE_SECONDS,
    EDGE_OPEN_MAX,
    EDGE_SILENT_SECONDS,
    FRAME_RECEIPT_SECONDS,
)

_BACKLOG = 512


class Edge:
    """The server, its connections, and the admission of requests. A second ``stop`` has no effect.

    ``profile`` is the dialect of all its connections.
    ``congested`` returns whether the queues to all owners are so long that new authorizations are refused.
    ``deferred`` returns how many open requests wait for decision endpoints of programmes: they do not count
    towards ``open_max``, so a slow endpoint does not take capacity from other programmes.
    """

    def __init__(
        self,
        respondent: Respondent,
        *,
        profile: Profile = ISO87_ASCII,
        congested: Callable[[], bool] = lambda: False,
        deferred: Callable[[], int] = lambda: 0,
        open_max: int = EDGE_OPEN_MAX,
        connections_max: int = EDGE_CONNECTIONS_MAX,
        per_address_max: int = EDGE_CONNECTIONS_PER_ADDRESS_MAX,
        receipt_seconds: float = FRAME_RECEIPT_SECONDS,
        idle_seconds: float = EDGE_IDLE_SECONDS,
        silent_seconds: float = EDGE_SILENT_SECONDS,
    ) -> None:
        self.counts = EdgeCounts()
        self._respondent = respondent
        self._profile = profile
        self._authorizations = authorization_prefixes(profile)
        self._mti_at = profile.header_bytes
        self._fast_decline = fast_decline(profile)
        self._congested = congested
        self._deferred = deferred
        self._open_max = open_max
        self._receipt_seconds = receipt_seconds
        self._idle_seconds = idle_seconds
        self._silent_seconds = silent_seconds
        self._dispatcher = Dispatcher(respondent, self.counts)
        self._queue: RequestQueue[EdgeConnection] = RequestQueue(self._dispatcher.dispatch)
        self._connections: ConnectionSlots[EdgeConnection] = ConnectionSlots(connections_max, per_address_max)
        self._server: asyncio.Server | None = None
        # One sweep over all connections costs less than a timer for each frame.
        seconds = min(1.0, min(receipt_seconds, idle_seconds, silent_seconds) / 4)
        self._sweeper = PeriodicTask("edge-sweep", self._sweep, seconds, delay=seconds)

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns the address; with ``port`` 0 the system chooses the port. Edges of one machine
        share a port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: EdgeConnection(self, self._profile), host, port, backlog=_BACKLOG, reuse_port=True
        )
        self._sweeper.start()
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Accept no more requests, send the answers of open ones, and close all connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.stop_reading()
        self._queue.flush()
        await self._respondent.drain()
        await self._sweeper.stop()
        for connection in list(self._connections):
            connection.close()
        await self._server.wait_closed()
        self._server = None

    # Called by connections
    # ------------------------------------------------------------------------------------------

    def opened(self, connection: EdgeConnection) -> None:
        """Admit ``connection``. At a limit, close an idle one for it (``connection_slots``)."""
        self.counts.connections += 1
        closed = self._connections.admit(connection)
        if closed is not None:
            self.counts.refused += 1
            closed.abort()

    def closed(self, connection: EdgeConnection) -> None:
        """Free the slot of ``connection``. Its open requests continue, and repeats of them get the
        answers."""
        self._connections.release(connection)

    def received(self, connection: EdgeConnection, payload: bytes) -> None:
        """Queue a message, or refuse it with 91 under overload: its answer would leave after the network's
        deadline. Only original authorizations are refused, before they are decoded. A repeat (0101) is not,
        because its original may have been approved."""
        if payload.startswith(self._authorizations, self._mti_at) and self._overloaded():
            refused = self._fast_decline(payload, DEADLINE_EXCEEDED)
            if refused is not None:
                self.counts.requests += 1
                self.counts.shed += 1
                connection.request_recognized()
                connection.send(refused)
                return
        connection.request_started()
        self._queue.add(connection, payload)

    def received_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """Answer a frame of a refused length."""
        self._dispatcher.reject_bad_frame(connection, bad)

    def _overloaded(self) -> bool:
        waiting = self._respondent.open + len(self._queue)
        return (
            waiting >= self._open_max and waiting - self._deferred() >= self._open_max
        ) or self._congested()

    async def _sweep(self) -> None:
        """Close overdue and idle connections."""
        for connection in list(self._connections):
            if connection.overdue(self._receipt_seconds):
                self.counts.cut += 1
                connection.abort()
            elif connection.is_idle(self._idle_seconds, self._silent_seconds):
                self.counts.idle += 1
                connection.close()
