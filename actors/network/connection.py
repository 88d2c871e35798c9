"""The edge's side of one network connection: frames in, answers out, and flow control.

The edge reads no more from a peer that has too many open requests, does not read its answers or exceeds its
link's bytes, so the memory that one peer can occupy is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actors.network.connection_slots import CARD_RECOGNIZED, NO_REQUEST, REQUESTED, source_of
from actors.network.framed import FramedConnection
from actors.network.links.management import ManagementRequest
from engine.iso8583.framing import BadFrame
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.limits import EDGE_IN_FLIGHT_MAX, EDGE_SEND_BUFFER_BYTES


class ConnectionHandler(Protocol):
    """Takes what connections report (``actors.network.edge``)."""

    def opened(self, connection: EdgeConnection) -> None:
        """A peer has connected."""

    def closed(self, connection: EdgeConnection) -> None:
        """The connection has ended."""

    def received(self, connection: EdgeConnection, payload: bytes) -> None:
        """A frame has arrived."""

    def received_bytes(self, connection: EdgeConnection, count: int) -> None:
        """Bytes have arrived."""

    def received_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """A frame of a refused length has arrived."""

    def answer(self, connection: EdgeConnection, response: Message) -> None:
        """Send the answer to a request of ``connection``."""

    def post(self, connection: EdgeConnection, request: Message, mac_key: bytes | None) -> None:
        """Send a message of this side."""


class EdgeConnection(FramedConnection):
    """One TCP connection of a network. The requester of the messages that arrive on it."""

    def __init__(
        self,
        handler: ConnectionHandler,
        profile: Profile,
        established: Callable[[], None] | None = None,
    ) -> None:
        """``established`` is called when the connection is established, with TLS after its handshake."""
        super().__init__(profile.framing)
        self._handler = handler
        self.profile = profile
        self._established = established
        self._in_flight = 0
        self._paused = False
        self._throttled = False
        self._stopped_reading = False
        self.malformed_frames = 0
        self.rank = NO_REQUEST
        self.received_at = self._loop.time()
        self.source = ""
        self.address = ""
        """Address of the peer."""
        self.certificate: Mapping[str, Any] | None = None
        """The peer's verified certificate, if the link has TLS."""
        self.signed_on = False
        self.mac_key: bytes | None = None
        self.asked: dict[str, ManagementRequest] = {}
        self.opened_at = self._loop.time()
        self.ended = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether requests of this connection are queued or without an answer."""
        return self._in_flight > 0

    def is_idle(self, idle_seconds: float, silent_seconds: float) -> bool:
        """Whether no frame arrived for too long and no request is open. ``silent_seconds`` is the limit
        before the first request, ``idle_seconds`` after it."""
        limit = idle_seconds if self.rank else silent_seconds
        return self.open and not self._in_flight and self._loop.time() - self.received_at > limit

    def request_recognized(self) -> None:
        """Note that the peer has sent a request."""
        self.rank = self.rank or REQUESTED

    def card_recognized(self) -> None:
        """Note that a request has named an issued card."""
        self.rank = CARD_RECOGNIZED

    def request_started(self) -> None:
        """Count one more open request."""
        self._in_flight += 1
        if self._in_flight >= EDGE_IN_FLIGHT_MAX:
            self._update_reading()

    def request_finished(self) -> None:
        """Count one open request less."""
        self._in_flight -= 1
        if self._paused:
            self._update_reading()

    def answer(self, response: Message) -> None:
        """Queue ``response``."""
        self._handler.answer(self, response)

    def post(self, request: Message, mac_key: bytes | None = None) -> None:
        """Queue a message of this side."""
        self._handler.post(self, request, mac_key)

    def stop_reading(self) -> None:
        """Read no more. Answers still leave."""
        self._stopped_reading = True
        self._update_reading()

    def throttle(self, seconds: float) -> None:
        """Read no more for ``seconds``."""
        if self._throttled:
            return
        self._throttled = True
        self._update_reading()
        self._loop.call_later(seconds, self._end_throttle)

    def frame_received(self, payload: bytes) -> None:
        self.received_at = self._loop.time()
        self._handler.received(self, payload)

    def bad_frame_received(self, bad: BadFrame) -> None:
        self._handler.received_bad_frame(self, bad)

    # Callbacks of asyncio
    # -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._established is not None:
            self._established()
        name = transport.get_extra_info("peername")
        if name:
            self.address = name[0]
            self.source = source_of(name[0])
        self.certificate = transport.get_extra_info("peercert")
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, EDGE_SEND_BUFFER_BYTES)
        self._handler.opened(self)

    def data_received(self, data: bytes) -> None:
        self._handler.received_bytes(self, len(data))
        super().data_received(data)

    def connection_lost(self, _failure: Exception | None) -> None:
        self.ended.set()
        self._handler.closed(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update_reading()

    def _end_throttle(self) -> None:
        self._throttled = False
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading. Hysteresis: reading resumes at half the limit of open requests."""
        if self._transport is None or self._transport.is_closing():
            return
        unread = self.unread_since is not None
        full = self._in_flight >= EDGE_IN_FLIGHT_MAX
        stopped = self._throttled or self._stopped_reading
        if not self._paused and (unread or full or stopped):
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and not (unread or stopped) and self._in_flight <= EDGE_IN_FLIGHT_MAX // 2:
            self._paused = False
            self._transport.resume_reading()
            if self.partial_since is not None:
                # The edge itself delayed the rest of this frame.
                self.partial_since = self._loop.time()
