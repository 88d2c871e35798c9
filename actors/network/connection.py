"""One network's connection to the edge: it decodes, counts what it cannot decode, and keeps a greedy peer
at its pace.

Malformed input costs an answer with DE39 = 30 where a header can be read, and after three the connection
(wire profile, transport). Nothing more is read from a peer that has too many requests open or does not read
its answers, so what one peer can occupy is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from actors.network.connection_slots import RECOGNIZED, SILENT, SPOKEN, source_of
from actors.network.framed import FramedConnection
from engine.iso8583.codec import DecodeError, decode, encode
from engine.iso8583.framing import BadFrame
from engine.iso8583.message import Message, is_request
from engine.iso8583.respond import malformed
from engine.limits import EDGE_IN_FLIGHT_MAX, EDGE_SEND_BUFFER_BYTES, MALFORMED_FRAMES_MAX


class PeerOwner(Protocol):
    """What a connection reports."""

    def joined(self, peer: Peer) -> None:
        """A network has connected."""

    def left(self, peer: Peer) -> None:
        """... and is gone."""

    def turn_away(self, payload: bytes) -> bytes | None:
        """The answer to what is not even decoded at the moment; ``None`` for everything else."""

    def let_in(self, peer: Peer, payload: bytes) -> None:
        """Have ``peer`` read everything else soon, in the order in which it came."""

    def requested(self, peer: Peer, request: Message, since: float) -> None:
        """A decodable request has come in, at ``since`` in the loop's time."""

    def misspoke(self) -> None:
        """Something malformed has come in."""


class Peer(FramedConnection):
    """The edge's side of one connection."""

    def __init__(self, owner: PeerOwner) -> None:
        super().__init__()
        self._owner = owner
        self._in_flight = 0
        self._malformed = 0
        self._paused = False
        self._finishing = False
        self.standing = SILENT
        self.heard_at = self._loop.time()
        self.source = ""

    @property
    def busy(self) -> bool:
        """Whether requests of this peer are being worked on."""
        return self._in_flight > 0

    def quiet(self, idle_seconds: float, silent_seconds: float) -> bool:
        """Whether nothing has come for too long, and nothing is being worked on."""
        limit = idle_seconds if self.standing else silent_seconds
        return self.open and not self._in_flight and self._loop.time() - self.heard_at > limit

    def recognized(self) -> None:
        """A request of this peer has named an issued card."""
        self.standing = RECOGNIZED

    def answer(self, response: Message) -> None:
        """Queues ``response``; a peer that has gone will ask again (wire case 1)."""
        self.send(encode(response))

    def took_up(self) -> None:
        """One more request of this peer is being worked on."""
        self._in_flight += 1
        if self._in_flight >= EDGE_IN_FLIGHT_MAX:
            self._pace()

    def settled(self) -> None:
        """... and one less."""
        self._in_flight -= 1
        if self._paused:
            self._pace()

    def finish(self) -> None:
        """Reads nothing more; answers still go out."""
        self._finishing = True
        self._pace()

    def frame_received(self, payload: bytes) -> None:
        self.heard_at = self._loop.time()
        refused = self._owner.turn_away(payload)
        if refused is not None:
            self._spoke()
            self.send(refused)
            return
        self.took_up()
        self._owner.let_in(self, payload)

    def read(self, payload: bytes, since: float) -> None:
        """Finds out what a message wants, which came in at ``since`` in the loop's time."""
        self.settled()
        if self._malformed >= MALFORMED_FRAMES_MAX:
            return
        try:
            message = decode(payload)
        except DecodeError as error:
            self._reject(error.read)
            return
        if is_request(message.mti):
            self._spoke()
            self._owner.requested(self, message, since)
        else:
            self._reject(None)

    def bad_frame_received(self, bad: BadFrame) -> None:
        try:
            self._reject(decode(bad.head))
        except DecodeError as error:
            self._reject(error.read)

    def _spoke(self) -> None:
        self.standing = self.standing or SPOKEN

    def _reject(self, read: Message | None) -> None:
        self._malformed += 1
        self._owner.misspoke()
        response = malformed(read)
        if response is not None:
            self.answer(response)
        if self._malformed >= MALFORMED_FRAMES_MAX:
            self.close()

    # What asyncio calls
    # -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.source = source_of(name[0]) if name else ""
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, EDGE_SEND_BUFFER_BYTES)
        self._owner.joined(self)

    def connection_lost(self, _failure: Exception | None) -> None:
        self._owner.left(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._pace()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._pace()

    def _pace(self) -> None:
        """Stops and resumes reading; half the limit lies between, so that it does not flutter."""
        if self._transport is None or self._transport.is_closing():
            return
        deaf = self.unread_since is not None
        full = self._in_flight >= EDGE_IN_FLIGHT_MAX
        if not self._paused and (deaf or full or self._finishing):
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and not (deaf or self._finishing) and self._in_flight <= EDGE_IN_FLIGHT_MAX // 2:
            self._paused = False
            self._transport.resume_reading()
            if self.partial_since is not None:
                self.partial_since = self._loop.time()  # it was us who did not read on
