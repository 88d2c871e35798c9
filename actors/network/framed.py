"""A TCP connection that carries frames; base class of both sides of the wire.

Writes are collected and sent once in each iteration of the event loop, so a hundred answers cost one system
call. The connection notes since when a frame has been incomplete and since when the peer has not read its
answers, so its owner can detect a slow peer.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from engine.iso8583.framing import BadFrame, FrameCutter, Framing
from engine.limits import EDGE_WRITE_BUFFER_BYTES


class FramedConnection(asyncio.Protocol):
    """Subclasses handle the frames. Instants are seconds of the event loop's clock."""

    def __init__(self, framing: Framing) -> None:
        self._loop = asyncio.get_running_loop()
        self._framing = framing
        self._cutter = FrameCutter(framing)
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.partial_since: float | None = None
        self.unread_since: float | None = None
        self._unsent_since: float | None = None

    def frame_received(self, payload: bytes) -> None:
        """Called with the payload of each complete frame."""

    def bad_frame_received(self, bad: BadFrame) -> None:
        """Called with each frame of a refused length."""

    @property
    def open(self) -> bool:
        """Whether the connection is established and not closing."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, payload: bytes) -> None:
        """Queue one frame. A closed connection drops it."""
        if not self.open:
            return
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(self._framing.frame(payload))

    def close(self) -> None:
        """Send the queued frames and close. Safe to call twice."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Reset the connection. Queued frames are lost."""
        if self._transport is not None:
            self._transport.abort()

    def overdue(self, seconds: float) -> bool:
        """Whether the peer has left a frame incomplete, or answers unread, for longer than ``seconds``.

        Call it periodically: a write buffer that is not empty at any call belongs to a peer that reads too
        slowly or not at all, even if the buffer holds only a few bytes.
        """
        now = self._loop.time()
        unsent = self._transport is not None and self._transport.get_write_buffer_size() > 0
        self._unsent_since = (self._unsent_since or now) if unsent else None
        instants = (self.partial_since, self.unread_since, self._unsent_since)
        return now - min(since or now for since in instants) > seconds

    # Callbacks of asyncio
    # -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=EDGE_WRITE_BUFFER_BYTES)
        connected = self._transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        frames = self._cutter.feed(data)
        if frames or self.partial_since is None:
            self.partial_since = self._loop.time() if self._cutter.partial else None
        for received in frames:
            if not self.open:
                return
            if isinstance(received, BadFrame):
                self.bad_frame_received(received)
            else:
                self.frame_received(received)

    def pause_writing(self) -> None:
        self.unread_since = self._loop.time()

    def resume_writing(self) -> None:
        self.unread_since = None

    def _flush(self) -> None:
        if self._outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()
