"""The health port of an edge: a node's probe asks it whether the node can get requests.

``GET /readyz`` answers 200 while every link of this edge that listens does so, and the API on this node
answers; otherwise 503 with one line for each reason. It runs in the event loop of the edge, so an edge that
hangs does not answer.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from actors.network.links.status import LinkStatus
from engine.limits import HEALTH_CONNECTIONS_MAX, HEALTH_SECONDS

HEAD_BYTES_MAX: Final = 8_192
_READY: Final = b"GET /readyz "
_ASK: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_FAILURES: Final = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


def _not_verifying() -> ssl.SSLContext:
    """The listener is our own, and its certificate names the public address."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class HealthPort:
    """Several edges of a node share the port while one replaces the other. ``stop`` is safe to call twice."""

    def __init__(
        self,
        address: tuple[str, int],
        statuses: Callable[[], Sequence[LinkStatus]],
        api: tuple[str, int],
        *,
        api_tls: bool,
    ) -> None:
        self._address = address
        self._statuses = statuses
        self._api = api
        self._tls = _not_verifying() if api_tls else None
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self) -> None:
        """Listen. Raises OSError."""
        listener = socket.create_server(
            self._address,
            family=socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET,
            reuse_port=True,
        )
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=HEAD_BYTES_MAX)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._server is not None, "start comes first"
        return int(self._server.sockets[0].getsockname()[1])

    async def reasons(self) -> list[str]:
        """Why this node should get no requests: one line each."""
        down = [each for each in self._statuses() if each.direction == "listen" and each.state == "down"]
        found = [f"link {each.name} does not listen" for each in down]
        if not await self._api_answers():
            found.append("the API does not answer")
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= HEALTH_CONNECTIONS_MAX:
                with suppress(*_FAILURES):
                    async with asyncio.timeout(HEALTH_SECONDS):
                        head = await reader.readuntil(b"\r\n\r\n")
                        writer.write(await self._answer(head))
                        await writer.drain()
                        writer.write_eof()
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        if not head.startswith(_READY):
            return _page("404 Not Found", ["GET /readyz"])
        reasons = await self.reasons()
        return _page("503 Service Unavailable", reasons) if reasons else _page("200 OK", ["ready"])

    async def _api_answers(self) -> bool:
        try:
            async with asyncio.timeout(HEALTH_SECONDS / 2):
                reader, writer = await asyncio.open_connection(*self._api, ssl=self._tls)
                try:
                    writer.write(_ASK)
                    status = await reader.readline()
                finally:
                    writer.transport.abort()
        except _FAILURES:
            return False
        return status.split(b" ")[1:2] == [b"200"]


def _page(status: str, lines: Sequence[str]) -> bytes:
    body = "".join(f"{line}\n" for line in lines)
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}"
    ).encode()
