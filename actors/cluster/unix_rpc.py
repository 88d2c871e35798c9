"""Remote calls between processes of one machine, over Unix domain sockets.

Ray places, names, restarts and ends processes, and gives callers the socket name of each one. A call through
Ray costs both sides together 1.5 ms of processor time or more, several times the cost of its payload; a call
over such a socket costs less than a tenth of that. On other machines, and on systems other than Linux, calls
go through Ray.

A socket name cannot be guessed. It is in the kernel's abstract namespace and not in the file system, so it
ends with its process. Client and server both refuse peers of another user. Frames therefore need no size
limit: every sender is part of this installation.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import socket
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, cast

from actors.peers import PeerFailedError, PeerGoneError

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers one call: method and payload in, payload out."""

AVAILABLE: Final = sys.platform == "linux"
"""Only Linux has abstract socket names."""
BACKLOG: Final = 512

_HEADER: Final = struct.Struct(">IQB")
"""Body length, call number, and a mark: in a request the length of the method name, in a reply the
outcome."""
_SUCCEEDED: Final = 0
_FAILED: Final = 1
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of the peer (SO_PEERCRED, unix(7))."""


class _FramedConnection(asyncio.Protocol, ABC):
    """Splits the byte stream into frames; subclasses interpret them."""

    def __init__(self) -> None:
        self._partial = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._partial + data if self._partial else data
        at, end = 0, len(data)
        while end - at >= _HEADER.size:
            length, number, mark = _HEADER.unpack_from(data, at)
            start = at + _HEADER.size
            if start + length > end:
                break
            at = start + length
            self.frame_received(number, mark, data[start:at])
        self._partial = data[at:]

    @abstractmethod
    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        """Called with each complete frame."""

    def send(self, number: int, mark: int, *parts: bytes) -> None:
        """Queue one frame. Frames to a closed connection are dropped."""
        if self.transport is not None and not self.transport.is_closing():
            head = _HEADER.pack(sum(map(len, parts)), number, mark)
            self.transport.write(b"".join((head, *parts)))


class UnixServer:
    """Serves the calls to one process. Call ``open`` and ``close`` once each."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._numbers = itertools.count()
        self._calls: dict[int, asyncio.Task[None]] = {}
        """The open calls. The event loop itself holds only weak references to tasks."""
        self.name = ""
        """The socket name for ``connect``; empty before ``open`` and where Unix sockets are not available."""

    async def open(self) -> None:
        """Listen, on Linux."""
        if not AVAILABLE:
            return
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"stanchion-{secrets.token_hex(16)}"
        listener.bind(f"\0{name}")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _ServerConnection(self), sock=listener, backlog=BACKLOG
        )
        self.name = name

    async def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def handle(self, connection: _ServerConnection, number: int, method: str, payload: bytes) -> None:
        """Start handling a call in a task of its own."""
        call = next(self._numbers)
        work = self._respond(call, connection, number, method, payload)
        self._calls[call] = asyncio.get_running_loop().create_task(work)

    async def _respond(
        self, call: int, connection: _ServerConnection, number: int, method: str, payload: bytes
    ) -> None:
        try:
            answer = await self._handler(method, payload)
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - every failure must reach the caller
            # Send the type only: the text may hold values.
            connection.send(number, _FAILED, type(failure).__name__.encode())
        else:
            connection.send(number, _SUCCEEDED, answer)
        finally:
            # A done callback of the task would cost another iteration of the loop.
            del self._calls[call]


class _ServerConnection(_FramedConnection):
    """The server's side of one connection."""

    def __init__(self, server: UnixServer) -> None:
        super().__init__()
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not _same_user(transport.get_extra_info("socket")):
            cast(asyncio.Transport, transport).abort()

    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        self._server.handle(self, number, body[:mark].decode(), body[mark:])


class UnixConnection(_FramedConnection):
    """The caller's side of one connection, made by ``connect``. ``on_lost`` is called when it has ended."""

    def __init__(self, role: str, on_lost: Callable[[UnixConnection], None]) -> None:
        super().__init__()
        self._role = role
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._replies: dict[int, asyncio.Future[bytes]] = {}
        self._lost = False

    async def call(self, method: str, payload: bytes) -> bytes:
        """Return the reply. Raises PeerGoneError when the connection ends first, PeerFailedError when the
        handler failed."""
        if self._lost:
            raise PeerGoneError(self._role)
        number, name = next(self._numbers), method.encode()
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._replies[number] = reply
        self.send(number, len(name), name, payload)
        try:
            return await reply
        finally:
            # Also after a cancellation of the caller.
            self._replies.pop(number, None)

    def close(self) -> None:
        """Abort the connection; open calls raise PeerGoneError."""
        if self.transport is not None:
            self.transport.abort()

    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        reply = self._replies.get(number)
        if reply is None or reply.done():
            return
        if mark == _SUCCEEDED:
            reply.set_result(body)
        else:
            reply.set_exception(PeerFailedError(f"{self._role}: {body.decode()}"))

    def connection_lost(self, _failure: Exception | None) -> None:
        self._lost = True
        self._on_lost(self)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(PeerGoneError(self._role))


async def connect(role: str, name: str, on_lost: Callable[[UnixConnection], None]) -> UnixConnection | None:
    """Connect to the socket ``name`` of ``role``; ``None`` where it cannot be reached from this process."""
    if not AVAILABLE or not name:
        return None
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        caller.setblocking(False)
        caller.connect(f"\0{name}")
        if not _same_user(caller):
            raise PermissionError
    except OSError:
        caller.close()
        return None
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(lambda: UnixConnection(role, on_lost), sock=caller)
    return connection


def _same_user(connected: socket.socket) -> bool:
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user == os.geteuid()
