"""A lean HTTP/1.1 client: keep-alive connections, one request at a time on each.

A full-featured client uses more CPU time than the API spends on the same request; on a shared machine the
generator would mostly measure itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import httptools
import msgspec

ANSWER_SECONDS_MAX = 30.0


class HttpError(Exception):
    """A request failed or returned an unexpected status. The message is one line."""


class Response(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One keep-alive connection; callers must take turns."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._body = bytearray()
        self._answer: asyncio.Future[Response] | None = None

    @property
    def open(self) -> bool:
        """Whether a request can be sent: servers close idle connections."""
        return self._transport is not None and not self._transport.is_closing()

    def request(self, message: bytes) -> asyncio.Future[Response]:
        """Send a whole request; the future holds its response, or HttpError when the connection ends."""
        answer = self._answer = asyncio.get_running_loop().create_future()
        if self._transport is None or not self.open:
            answer.set_exception(HttpError("the connection has ended"))
        else:
            self._parser = httptools.HttpResponseParser(self)
            self._body.clear()
            self._transport.write(message)
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # What asyncio and the parser call
    # --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        # Servers also answer (408) on connections that never sent a request.
        if self._parser is not None:
            self._parser.feed_data(data)

    def connection_lost(self, _failure: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HttpError("the connection has ended"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Response(self._parser.get_status_code(), bytes(self._body)))


class Api:
    """The API as one signed-in client. ``open`` before anything else, ``close`` at the end."""

    def __init__(self, base_url: str, connections: int) -> None:
        address = urlsplit(base_url)
        self._host, self._port = address.hostname or "", address.port or 80
        self._count = connections
        self._free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        self._authorization = ""

    async def open(self, credentials: Mapping[str, str]) -> None:
        """Connect and sign in (OAuth 2.0 client credentials)."""
        for _ in range(self._count):
            self._free.put_nowait(await self.connect())
        form = {"grant_type": "client_credentials"} | {
            name: credentials[name] for name in ("client_id", "client_secret")
        }
        content = urlencode(form).encode()
        message = self.message("POST", "/v1/oauth/token", content, "application/x-www-form-urlencoded")
        token = await self._exchange(message, "POST /v1/oauth/token", 200)
        self._authorization = f"Bearer {token['access_token']}"

    async def connect(self) -> Connection:
        """Open one more connection, which belongs to the caller."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self._host, self._port)
        return connection

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The JSON body of the response to one request. Raises HttpError on another status."""
        message = self.message(method, path, b"" if body is None else msgspec.json.encode(body))
        return await self._exchange(message, f"{method} {path}", status)

    def message(
        self, method: str, path: str, content: bytes, content_type: str = "application/json"
    ) -> bytes:
        """The bytes of a request; writes get a fresh idempotency key."""
        headers = {
            "Host": f"{self._host}:{self._port}",
            "Content-Length": str(len(content)),
            "Content-Type": content_type,
        }
        if self._authorization:
            headers["Authorization"] = self._authorization
        if method != "GET" and path not in ("/v1/oauth/token", "/v1/simulated-spends"):
            headers["Idempotency-Key"] = str(uuid4())
        lines = (f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()))
        return "\r\n".join((*lines, "", "")).encode() + content

    async def close(self) -> None:
        """Close the idle connections."""
        while not self._free.empty():
            self._free.get_nowait().close()

    async def _exchange(self, message: bytes, what: str, status: int) -> Any:
        connection = await self._free.get()
        if not connection.open:
            connection = await self.connect()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                response = await connection.request(message)
        except TimeoutError:
            raise HttpError(f"{what}: no answer in time") from None
        finally:
            self._free.put_nowait(connection)
        content = msgspec.json.decode(response.body)
        if response.status != status:
            raise HttpError(f"{what}: {response.status} ({content.get('title')})")
        return content
