"""A TLS receiver that answers each request with bytes that the test chooses."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trustme

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the tests: its file, and TLS contexts of servers for given names."""

    ca: trustme.CA
    file: Path

    def server(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context


def authority(folder: Path) -> Authority:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return Authority(ca, folder / "ca.pem")


@dataclass
class Receiver:
    """The heads and bodies of received requests, and the number of connections."""

    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


def answering(answer: bytes) -> Answer:
    """Sends ``answer`` and keeps the connection open."""

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return send


async def silence(_writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await asyncio.Event().wait()


async def disconnect(writer: asyncio.StreamWriter) -> None:
    """Closes the connection without an answer."""
    writer.close()


@contextlib.asynccontextmanager
async def receiving(
    tls: ssl.SSLContext | None, answer: Answer, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """A receiver on a free port, over TLS unless ``tls`` is ``None``."""
    receiver = Receiver()
    open_connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_connections.add(task)
        receiver.connections += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                receiver.heads.append(head.decode("latin-1"))
                receiver.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
                await answer(writer)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # the client has disconnected, or the test is over
        finally:
            writer.close()
            open_connections.discard(task)

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)
