"""Calls between processes of one machine, over sockets of their own.

Ray places processes, names, restarts and ends them, and tells where each one's *door* is. A call through Ray
costs both sides together 1.5 ms of processor time or more, several times what it carries; through a door
less than a tenth of that. Where there is no door to be reached (another machine, another system than Linux),
calls go through Ray.

A door has a name that cannot be guessed, in the kernel's table of sockets and not in the file system, so that
nothing of it outlives its process; on both sides only the same user is spoken to. That is also why a frame
needs no limit: whoever can send one is part of this installation.
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

Answer = Callable[[str, bytes], Awaitable[bytes]]
"""What a process does when it is called: method and payload in, payload out."""

AVAILABLE: Final = sys.platform == "linux"
BACKLOG: Final = 512

_HEADER: Final = struct.Struct(">IQB")
"""Bytes that follow, number of the call, and a mark: of a call the length of its method's name, of an answer
how it went."""
_ANSWERED: Final = 0
_FAILED: Final = 1
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of the other end (unix(7))."""


class _Framed(asyncio.Protocol, ABC):
    """One end of a connection; subclasses say what a frame means."""

    def __init__(self) -> None:
        self._held = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        at, end = 0, len(data)
        while end - at >= _HEADER.size:
            length, number, mark = _HEADER.unpack_from(data, at)
            start = at + _HEADER.size
            if start + length > end:
                break
            at = start + length
            self.frame_received(number, mark, data[start:at])
        self._held = data[at:]

    @abstractmethod
    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        """Called with each whole frame."""

    def send(self, number: int, mark: int, *parts: bytes) -> None:
        """Queue one frame; a closed connection swallows it."""
        if self.transport is not None and not self.transport.is_closing():
            head = _HEADER.pack(sum(map(len, parts)), number, mark)
            self.transport.write(b"".join((head, *parts)))


class Door:
    """Where one process is called. ``open`` and ``close`` it once each."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.name = ""
        """What a ``Line`` dials; empty while there is none."""

    async def open(self) -> None:
        """Listen, where that is possible."""
        if not AVAILABLE:
            return
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"stanchion-{secrets.token_hex(16)}"
        listener.bind(f"\0{name}")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Visit(self), sock=listener, backlog=BACKLOG)
        self.name = name

    async def close(self) -> None:
        """Take no more calls."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def called(self, visit: _Visit, number: int, method: str, payload: bytes) -> None:
        """Begin to answer; other calls do not wait for it."""
        task = asyncio.get_running_loop().create_task(self._respond(visit, number, method, payload))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, visit: _Visit, number: int, method: str, payload: bytes) -> None:
        try:
            answer = await self._answer(method, payload)
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - whatever it is, the caller must hear of it
            # The type alone: its text may hold values.
            visit.send(number, _FAILED, type(failure).__name__.encode())
        else:
            visit.send(number, _ANSWERED, answer)


class _Visit(_Framed):
    """The door's side of one connection."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not _same_user(transport.get_extra_info("socket")):
            cast(asyncio.Transport, transport).abort()

    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        self._door.called(self, number, body[:mark].decode(), body[mark:])


class Line(_Framed):
    """The caller's side; ``dial`` makes one. ``on_lost`` is called when it has ended."""

    def __init__(self, role: str, on_lost: Callable[[Line], None]) -> None:
        super().__init__()
        self._role = role
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._lost = False

    async def call(self, method: str, payload: bytes) -> bytes:
        """The answer. Raises PeerGoneError when the other process ends, PeerFailedError when it cannot."""
        if self._lost:
            raise PeerGoneError(self._role)
        number, name = next(self._numbers), method.encode()
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[number] = answer
        self.send(number, len(name), name, payload)
        try:
            return await answer
        finally:
            # A caller that was cancelled waits no longer.
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Hang up: whoever still waits hears that the other process is gone."""
        if self.transport is not None:
            self.transport.abort()

    def frame_received(self, number: int, mark: int, body: bytes) -> None:
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if mark == _ANSWERED:
            answer.set_result(body)
        else:
            answer.set_exception(PeerFailedError(f"{self._role}: {body.decode()}"))

    def connection_lost(self, _failure: Exception | None) -> None:
        self._lost = True
        self._on_lost(self)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(PeerGoneError(self._role))


async def dial(role: str, name: str, on_lost: Callable[[Line], None]) -> Line | None:
    """A line to the door ``name`` of ``role``; ``None`` where it cannot be reached from here."""
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
    _, line = await loop.create_unix_connection(lambda: Line(role, on_lost), sock=caller)
    return line


def _same_user(connected: socket.socket) -> bool:
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user == os.geteuid()
