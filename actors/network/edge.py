"""The network edge: answers the ISO 8583 messages of the networks on one link.

A message takes one way through the modules of this package::

    EdgeConnection ── frame ──> Edge.received ──> RequestQueue ──> Dispatcher ──> Respondent ──> owner
          ^                         │ overloaded: 91                   │ 0800, malformed   │
          └────────── answer ───────┴──────────────────────────────────┴───────────────────┘

One process serves all links, each with an ``Edge`` and connections of its own (``link_set``). The edge stores
nothing. After a crash the network repeats its messages, and the owner's journal returns the same answers. A
peer that is slow, silent or malformed, or does not read its answers, loses its connection (``sweep``,
``dispatch``); other connections are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import structlog

from actors.clock import Clock, SystemClock
from actors.network.connection import EdgeConnection
from actors.network.connection_slots import ConnectionSlots
from actors.network.dispatch import Dispatcher
from actors.network.edge_counts import EdgeCounts
from actors.network.edge_times import DEFAULT_TIMES, EdgeTimes
from actors.network.links.byte_quota import ByteQuota
from actors.network.links.connecting import Connector
from actors.network.links.entry import LinkEntry, default_link
from actors.network.links.guard import Guard
from actors.network.links.listening import Listener, is_allowed
from actors.network.links.mac import LinkMac
from actors.network.links.management import NetworkManagement
from actors.network.links.rates import Rates
from actors.network.links.tls import is_accepted
from actors.network.overload import Overload
from actors.network.request_queue import RequestQueue
from actors.network.respondent import Respondent
from actors.network.sweep import Sweep
from engine.iso8583.fast_decline import authorization_prefixes
from engine.iso8583.framing import BadFrame
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import SIGN_OFF
from engine.limits import EDGE_CONNECTIONS_MAX, EDGE_CONNECTIONS_PER_ADDRESS_MAX, EDGE_OPEN_MAX

State = Literal["up", "down", "draining", "signed_off"]

_log = structlog.get_logger(__name__)


class Edge:
    """One link: its connections, and the admission of requests. A second ``stop`` has no effect.

    ``profile`` is the dialect of all its connections.
    ``congested`` returns whether the queues to all owners are so long that new authorizations are refused.
    ``deferred`` returns how many open requests wait for decision endpoints of programmes: they do not count
    towards ``open_max``, so a slow endpoint does not take capacity from other programmes. ``open_elsewhere``
    returns how many requests of other links are open, which count.
    """

    def __init__(
        self,
        respondent: Respondent,
        *,
        entry: LinkEntry | None = None,
        profile: Profile = ISO87_ASCII,
        mac: LinkMac | None = None,
        counts: EdgeCounts | None = None,
        clock: Clock | None = None,
        congested: Callable[[], bool] = lambda: False,
        deferred: Callable[[], int] = lambda: 0,
        open_elsewhere: Callable[[], int] | None = None,
        open_max: int = EDGE_OPEN_MAX,
        connections_max: int = EDGE_CONNECTIONS_MAX,
        per_address_max: int = EDGE_CONNECTIONS_PER_ADDRESS_MAX,
        times: EdgeTimes = DEFAULT_TIMES,
        connector: Callable[..., Connector] = Connector,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.entry = entry or default_link("127.0.0.1", 0)
        self.counts = counts or EdgeCounts()
        self._clock = clock or SystemClock()
        self._respondent = respondent
        self._profile = profile
        self._authorizations = authorization_prefixes(profile)
        self._mti_at = profile.header_bytes
        self._mac = mac
        self._bytes = ByteQuota(bytes_, loop.time) if (bytes_ := self.entry.bytes_per_second) else None
        self._guard = Guard(self.entry, self.counts, mac)
        self._management = NetworkManagement(
            self.entry,
            self._guard,
            self.counts,
            self._clock,
            loop.time,
            mac=mac,
            reply_seconds=times.reply_seconds,
        )
        self._dispatcher = Dispatcher(respondent, self.counts, self._management)
        self._queue: RequestQueue[EdgeConnection] = RequestQueue(self._dispatcher.dispatch)
        self._overload = Overload(
            respondent.exchanges,
            self._queue,
            self.counts,
            profile=profile,
            mac=mac,
            open_max=open_max,
            quota=self.entry.in_flight,
            congested=congested,
            deferred=deferred,
            open_elsewhere=open_elsewhere,
        )
        self._connections: ConnectionSlots[EdgeConnection] = ConnectionSlots(connections_max, per_address_max)
        self._rates = Rates(loop.time())
        self._sweep = Sweep(self._connections, self._management, self.counts, self._rates, times)
        self._listener = Listener(self.entry, self._connection, self._turn_away)
        self._connector = connector(self.entry, self._connection, self.note_error)
        self._address = (self.entry.host, self.entry.port)
        self._running = False
        self._set_guard()

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def signed_on(self) -> int:
        """Number of connections on which one side has signed on."""
        return sum(connection.signed_on for connection in self._connections)

    @property
    def open(self) -> int:
        """Requests that are queued or without an answer."""
        return self._respondent.open + len(self._queue)

    @property
    def state(self) -> State:
        """``up``: a message can arrive and be decided. ``down``: the peer cannot be reached, or has not
        accepted the sign-on. ``draining``, ``signed_off``: an operator has signed the link off."""
        if self._guard.signed_off:
            return "draining" if len(self._connections) else "signed_off"
        if self.entry.listens:
            return "up" if self._listener.is_up else "down"
        return "up" if any(map(self._serves, self._connections)) else "down"

    def recent_answers(self) -> dict[tuple[str, str], int]:
        """Answers of the last minute, by MTI and DE39."""
        return self._rates.recent(asyncio.get_running_loop().time(), self.counts.answers)

    async def start(self, host: str, port: int, *, signed_off: bool = False) -> tuple[str, int]:
        """Listen at ``host`` and ``port``, or connect to them. Returns the address; for a listener with
        ``port`` 0 the system chooses the port. Edges of one machine share a port. ``signed_off``: wait for
        ``sign_on``. Raises ``OSError``."""
        self._address = (host, port)
        self._running = True
        if signed_off:
            self._guard.signed_off = True
            self._set_guard()
        else:
            await self._open()
        self._sweep.start()
        return self._address

    async def stop(self) -> None:
        """Accept no more requests, send the answers of open ones, and close all connections."""
        if not self._running:
            return
        self._running = False
        self._listener.stop()
        await self._connector.stop()
        for connection in self._connections:
            connection.stop_reading()
        self._queue.flush()
        await self._respondent.drain()
        await self._sweep.stop()
        for connection in list(self._connections):
            connection.close()

    async def sign_off(self) -> None:
        """Drain the link: refuse new messages with 91, answer open ones, and close all connections. Safe to
        call twice."""
        if self._guard.signed_off:
            return
        _log.info("link_signed_off", link=self.entry.name)
        self._guard.signed_off = True
        self._set_guard()
        self._sweep.draining_since = asyncio.get_running_loop().time()
        self._listener.stop()
        await self._connector.stop()
        for connection in self._connections:
            if self.entry.sign_on != "none":
                self._management.ask(connection, SIGN_OFF)

    async def sign_on(self) -> None:
        """Open the link again. Safe to call twice. Raises ``OSError``; the link then stays signed off."""
        if not self._guard.signed_off:
            return
        await self._open()
        self._guard.signed_off = False
        self._set_guard()
        self._sweep.draining_since = None
        _log.info("link_signed_on", link=self.entry.name)

    # Called by connections
    # ------------------------------------------------------------------------------------------

    def opened(self, connection: EdgeConnection) -> None:
        """Admit ``connection``. At a limit, close an idle one for it (``connection_slots``)."""
        self.counts.connections += 1
        refusal = self._refusal(connection)
        if refusal is not None:
            self._turn_away(refusal)
            connection.abort()
            return
        closed = self._connections.admit(connection)
        if closed is not None:
            self.counts.refused += 1
            closed.abort()
        if closed is not connection:
            self._management.opened(connection)

    def closed(self, connection: EdgeConnection) -> None:
        """Free the slot of ``connection``. Its open requests continue, and repeats of them get the
        answers."""
        self._connections.release(connection)

    def received(self, connection: EdgeConnection, payload: bytes) -> None:
        """Queue a message, or refuse it under overload (``overload``)."""
        if (
            payload.startswith(self._authorizations, self._mti_at)
            and self._overload.is_reached()
            and self._overload.refuse(connection, payload)
        ):
            return
        connection.request_started()
        self._queue.add(connection, payload)

    def received_bytes(self, connection: EdgeConnection, count: int) -> None:
        """Count bytes. Above the link's quota, read less from this connection."""
        self.counts.bytes_received += count
        if self._bytes is not None:
            seconds = self._bytes.take(count)
            if seconds:
                connection.throttle(seconds)

    def received_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """Answer a frame of a refused length."""
        self._dispatcher.reject_bad_frame(connection, bad)

    def answer(self, connection: EdgeConnection, response: Message) -> None:
        """Send an answer. If its connection has ended, a link that connects sends it on another one, because
        all of them lead to one peer. Without another one it is dropped; the network repeats its request."""
        self.counts.count_answer(response.mti, response.fields.get(39, ""))
        if not connection.open and not self.entry.listens:
            other = next((each for each in self._connections if self._serves(each)), None)
            if other is None:
                return
            self.counts.rerouted += 1
            connection = other
        mac = self._mac
        encode = self._profile.encode
        connection.send(encode(response) if mac is None else mac.encode(response, connection.mac_key))

    def post(self, connection: EdgeConnection, request: Message, mac_key: bytes | None) -> None:
        """Send a message of this side, given in the form of the 1987 version."""
        request, mac = self._profile.own_request(request, self._clock.now_ms()), self._mac
        connection.send(self._profile.encode(request) if mac is None else mac.encode(request, mac_key))

    # ------------------------------------------------------------------------------------------

    def _serves(self, connection: EdgeConnection) -> bool:
        """Whether messages on ``connection`` are decided."""
        return connection.open and (connection.signed_on or self.entry.sign_on != "required")

    def _connection(self, established: Callable[[], None] | None = None) -> EdgeConnection:
        return EdgeConnection(self, self._profile, established)

    async def _open(self) -> None:
        if self.entry.listens:
            self._address = await self._listener.start(*self._address)
        else:
            self._connector.start()

    def _set_guard(self) -> None:
        self._dispatcher.guard = self._guard if self._guard.needed else None

    def _refusal(self, connection: EdgeConnection) -> str | None:
        """The reason for which ``connection`` may not use the link."""
        if self._guard.signed_off or not self._running:
            return "closed"
        if not self.entry.listens:
            return None
        if not is_allowed(self.entry.allow, connection.address):
            return "address"
        if self.entry.tls is not None and not is_accepted(self.entry.tls, connection.certificate):
            return "client_name"
        return None

    def _turn_away(self, reason: str) -> None:
        self.counts.count_screened(reason)
        _log.warning("link_connection_refused", link=self.entry.name, reason=reason)

    def note_error(self, error: str) -> None:
        """Note that the link cannot connect or listen."""
        self.counts.note_error(error, self._clock.now_ms())
        _log.warning("link_down", link=self.entry.name, error=error)
