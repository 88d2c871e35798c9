"""One process of webhook receivers: a minimal HTTPS server that reads every request.

    python -m ops.bench.receiver CERTIFICATE

``CERTIFICATE`` is a PEM file with chain and key. The path selects the behaviour: ``/hang`` never answers, all
other paths answer 200 at once. The latency of a delivery is the age of its event on arrival, by the clock
that both processes share."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Final, cast

import uvloop

from ops.bench.pipe import serve

HANG: Final = b"POST /hang"
_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_CREATED: Final = b'"created_at":"'
_CREATED_BYTES: Final = len("2026-01-01T00:00:00.000Z")


class Tally:
    """Arrivals since the last ``take``."""

    def __init__(self) -> None:
        self.arrived: list[float] = []
        """Instants of arrival, in monotonic seconds."""
        self.age_ms: list[float] = []
        """Age of each event on arrival."""
        self.hung = 0

    def count(self, body: bytes) -> None:
        """Count one request that is answered."""
        start = body.index(_CREATED) + len(_CREATED)
        created = datetime.fromisoformat(body[start : start + _CREATED_BYTES].decode())
        self.arrived.append(time.monotonic())
        self.age_ms.append((time.time() - created.timestamp()) * 1000)


class ReceiverConnection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(_END_OF_HEAD)) >= 0:
            head = self._buffer[:end].lower()
            start = head.index(_LENGTH) + len(_LENGTH)
            length = int(head[start:].split(b"\r", 1)[0])
            whole = end + len(_END_OF_HEAD) + length
            if len(self._buffer) < whole:
                return
            self._request(self._buffer[:whole])
            self._buffer = self._buffer[whole:]

    def _request(self, request: bytes) -> None:
        if request.startswith(HANG):
            self._tally.hung += 1
            return
        self._tally.count(request)
        assert self._transport is not None
        self._transport.write(_ANSWER)


async def _main(certificate: Path) -> None:
    tally = Tally()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(
        lambda: ReceiverConnection(tally), "127.0.0.1", 0, ssl=tls, family=socket.AF_INET, backlog=1024
    )
    port: int = server.sockets[0].getsockname()[1]

    async def open_() -> int:
        return port

    async def take() -> dict[str, object]:
        taken = {"arrived": tally.arrived, "age_ms": tally.age_ms, "hung": tally.hung}
        tally.arrived, tally.age_ms, tally.hung = [], [], 0
        return taken

    await serve({"open": open_, "take": take})
    server.close()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1])))
