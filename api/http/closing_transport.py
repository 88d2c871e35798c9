"""The transport below the HTTP protocol: it joins small writes, and lingers before it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

HELD_BYTES_MAX: Final = 2 * 1024
"""Largest write that waits for the one after it: the head of nearly every answer."""
TLS_WRITE_BYTES: Final = 64 * 1024
"""Size of one write over TLS. A TLS transport passes each write to the socket's buffer as a whole, where the
unsent rest cannot be measured."""


class LingeringProtocol(Protocol):
    """The protocol above the transport."""

    def request_unfinished(self) -> bool:
        """Whether a request has begun and not ended; then ``close`` lingers."""

    def linger(self) -> None:
        """Read and discard for a while, so that the client gets the answer."""


class ClosingTransport:
    """A transport as uvicorn uses it, whose ``close`` lingers while the client is still sending.

    Closing a socket with unread bytes resets the connection, and the client may lose the answer. An open
    socket costs a descriptor until the client closes it. Therefore the connection is closed for writing only,
    and reads within the limits of its table.

    uvicorn writes the head of an answer and its body one after the other. The first small write of a loop
    iteration therefore waits for the next one, or for the end of the iteration: most answers are one packet.
    """

    def __init__(self, transport: asyncio.Transport, protocol: LingeringProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._closing = False
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.get_extra_info = transport.get_extra_info
        self.get_write_buffer_size = transport.get_write_buffer_size
        self._loop = asyncio.get_running_loop()
        self._held = b""
        tls = transport.get_extra_info("sslcontext") is not None
        self._pass_on: Callable[[bytes], None] = self._write_in_parts if tls else transport.write
        self.write: Callable[[bytes], None] = self._hold_or_write

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Close, now or after lingering; later writes are dropped."""
        if self._closing:
            return
        self._close_writing()
        if self._transport.is_closing() or not self._protocol.request_unfinished():
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._protocol.linger()

    def close_now(self) -> None:
        """Close without lingering; the unsent rest of the answer is still sent."""
        self._close_writing()
        self._transport.close()

    def abort(self) -> None:
        """Close and drop the unsent rest."""
        self._close_writing()
        try:
            self._transport.abort()
        except AttributeError:
            # In some releases of Python 3.11, a closed TLS connection has no transport any more.
            self._transport.close()

    def _hold_or_write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._pass_on(held + data)
        elif len(data) <= HELD_BYTES_MAX:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._pass_on(data)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._pass_on(held)

    def _close_writing(self) -> None:
        if not self._closing:
            self._flush()
        self._closing = True
        self.write = _drop

    def _write_in_parts(self, data: bytes) -> None:
        for start in range(0, len(data), TLS_WRITE_BYTES):
            self._transport.write(data[start : start + TLS_WRITE_BYTES])


def _drop(_data: bytes) -> None:
    """Discard an answer after the connection was closed."""
