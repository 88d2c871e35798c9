"""The network edge: a TCP server that speaks ISO 8583 with networks and asks the owners of cards.

It holds no truth. What it forgets when it dies, the network asks again, and the owner's journal answers
with the same bytes. A peer that is slow, silent, deaf or malformed is cut without touching any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from actors.essential import start_essential
from actors.network.connection import Peer
from actors.network.connection_slots import ConnectionSlots
from actors.network.request_queue import RequestQueue
from actors.network.respondent import Respondent
from engine.iso8583.content import FUNCTIONS
from engine.iso8583.fast_decline import AUTHORIZATION, fast_decline
from engine.iso8583.message import Message
from engine.iso8583.respond import (
    DEADLINE_EXCEEDED,
    NOT_SUPPORTED,
    SYSTEM_ERROR,
    network_management,
    refusal,
)
from engine.limits import (
    EDGE_CONNECTIONS_MAX,
    EDGE_CONNECTIONS_PER_ADDRESS_MAX,
    EDGE_IDLE_SECONDS,
    EDGE_OPEN_MAX,
    EDGE_SILENT_SECONDS,
    FRAME_RECEIPT_SECONDS,
)

_log = structlog.get_logger(__name__)
_BACKLOG = 512


class EdgeCounts(msgspec.Struct):
    """What has happened at one edge since it started."""

    connections: int = 0
    refused: int = 0
    """Connections closed because there were too many, new or quiet ones."""
    cut: int = 0
    """Connections of slow and of deaf peers."""
    idle: int = 0
    """Connections closed because nothing came for too long."""
    requests: int = 0
    malformed: int = 0
    unsupported: int = 0
    faults: int = 0
    """Requests that made the edge itself fail."""
    shed: int = 0
    """Authorizations refused at once, because their answers would come too late."""


class Edge:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless. ``congested``: whether the way to
    the owners is so long that new authorizations had better be refused; ``deferred``: how many of the open
    requests wait for somebody outside, which must not cost other programmes theirs."""

    def __init__(
        self,
        respondent: Respondent,
        *,
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
        self._congested = congested
        self._deferred = deferred
        self._open_max = open_max
        self._receipt_seconds = receipt_seconds
        self._idle_seconds = idle_seconds
        self._silent_seconds = silent_seconds
        self._handlers = dict.fromkeys(FUNCTIONS, respondent.respond) | {"080": self._manage}
        self._peers: ConnectionSlots[Peer] = ConnectionSlots(connections_max, per_address_max)
        self._intake: RequestQueue[Peer] = RequestQueue(Peer.read)
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def connected(self) -> int:
        """Connections that are open now."""
        return len(self._peers)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address, whose port has been picked when ``port`` is 0. Edges of one machine
        share a port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Peer(self), host, port, backlog=_BACKLOG, reuse_port=True
        )
        self._sweeper = start_essential(self._sweep(), "edge-sweep")
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Takes no more, gives the answers that are still due, and closes every connection."""
        if self._server is None or self._sweeper is None:
            return
        self._server.close()
        for peer in self._peers:
            peer.finish()
        self._intake.finish()
        await self._respondent.drain()
        self._sweeper.cancel()
        for peer in list(self._peers):
            peer.close()
        await self._server.wait_closed()
        self._server = None

    # What connections report
    # ------------------------------------------------------------------------------------------

    def joined(self, peer: Peer) -> None:
        """Admits ``peer``. At a limit, a quiet connection makes room for it (``actors.network.connection_slots``)."""
        self.counts.connections += 1
        closed = self._peers.admit(peer)
        if closed is not None:
            self.counts.refused += 1
            closed.abort()

    def left(self, peer: Peer) -> None:
        """Forgets ``peer``; what it has asked goes on and can be asked again."""
        self._peers.leave(peer)

    def misspoke(self) -> None:
        """Counts what could not be decoded."""
        self.counts.malformed += 1

    def turn_away(self, payload: bytes) -> bytes | None:
        """The refusal of an authorization while there are too many, before anything is spent on it, decoding
        included: what waits longer than its network does is worth nothing. A repeat is not refused: its
        original may have been approved."""
        if not payload.startswith(AUTHORIZATION) or not self._overloaded():
            return None
        refused = fast_decline(payload, DEADLINE_EXCEEDED)
        if refused is not None:
            self.counts.requests += 1
            self.counts.shed += 1
        return refused

    def let_in(self, peer: Peer, payload: bytes) -> None:
        """Has ``peer`` read a message soon."""
        self._intake.add(peer, payload)

    def requested(self, peer: Peer, request: Message, since: float | None = None) -> None:
        """Hands a request to whoever answers its class and function. ``since``: when it came in, in the
        loop's time, if not now."""
        self.counts.requests += 1
        handler = self._handlers.get(request.mti[:3])
        if handler is None:
            self.counts.unsupported += 1
            peer.answer(refusal(request, NOT_SUPPORTED))
            return
        try:
            handler(peer, request, since)
        except Exception as failure:  # noqa: BLE001 - a fault of ours with one message must not cost the peer its connection
            self.counts.faults += 1
            _log.error("edge_fault", mti=request.mti, error=type(failure).__name__)
            short = isinstance(failure, MemoryError)
            peer.answer(refusal(request, DEADLINE_EXCEEDED if short else SYSTEM_ERROR))

    def _overloaded(self) -> bool:
        waiting = self._respondent.open + len(self._intake)
        return (
            waiting >= self._open_max and waiting - self._deferred() >= self._open_max
        ) or self._congested()

    def _manage(self, peer: Peer, request: Message, _since: float | None) -> None:
        peer.answer(network_management(request))

    async def _sweep(self) -> None:
        """Closes peers that are overdue or idle; one look at all of them costs less than a timer for each
        frame."""
        shortest = min(self._receipt_seconds, self._idle_seconds, self._silent_seconds)
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            for peer in list(self._peers):
                if peer.overdue(self._receipt_seconds):
                    self.counts.cut += 1
                    peer.abort()
                elif peer.quiet(self._idle_seconds, self._silent_seconds):
                    self.counts.idle += 1
                    peer.close()
