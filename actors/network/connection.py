"""The edge's side of one network connection: frames in, answers out, and flow control.

The edge reads no more from a peer that has too many open requests or does not read its answers, so the memory
that one peer can occupy is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from actors.network.connection_slots import CARD_RECOGNIZED, NO_REQUEST, REQUESTED, source_of
from actors.network.framed import FramedConnection
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

    def received_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """A frame of a refused length has arrived."""


class EdgeConnection(FramedConnection):
    """One TCP connection of a network. The requester of the messages that arrive on it."""

    def __init__(self, handler: ConnectionHandler, profile: Profile) -> None:
        super().__init__(profile.framing)
        self._handler = handler
        self.profile = profile
        self._in_flight = 0
        self._paused = False
        self._stopped_reading = False
        self.malformed_frames = 0
        self.rank = NO_REQUEST
        self.received_at = self._loop.time()
        self.source = ""

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
        """Queue ``response``. A closed connection drops it; the network repeats its request."""
        self.send(self.profile.encode(response))

    def stop_reading(self) -> None:
        """Read no more. Answers still leave."""
        self._stopped_reading = True
        self._update_reading()

    def frame_received(self, payload: bytes) -> None:
        self.received_at = self._loop.time()
        self._handler.received(self, payload)

    def bad_frame_received(self, bad: BadFrame) -> None:
        self._handler.received_bad_frame(self, bad)

    # Callbacks of asyncio
    # -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.source = source_of(name[0]) if name else ""
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, EDGE_SEND_BUFFER_BYTES)
        self._handler.opened(self)

    def connection_lost(self, _failure: Exception | None) -> None:
        self._handler.closed(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading. Hysteresis: reading resumes at half the limit of open requests."""
        if self._transport is None or self._transport.is_closing():
            return
        unread = self.unread_since is not None
        full = self._in_flight >= EDGE_IN_FLIGHT_MAX
        if not self._paused and (unread or full or self._stopped_reading):
            self._paused = True
            self._transport.pause_reading()
        elif (
            self._paused
            and not (unread or self._stopped_reading)
            and self._in_flight <= EDGE_IN_FLIGHT_MAX // 2
        ):
            self._paused = False
            self._transport.resume_reading()
            if self.partial_since is not None:
                # The edge itself delayed the rest of this frame.
                self.partial_since = self._loop.time()
