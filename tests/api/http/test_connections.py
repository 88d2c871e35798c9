"""Connections on real sockets: the server counts each one and closes it at its limits."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from actors.connections import ConnectionLimits, ConnectionTable
from api.vision.app import create_app as create_vision_app
from engine.limits import HTTP_FRAMING_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_PIPELINE_MAX
from tests.support.api.stack import Installation, served

SECONDS_MAX = 60.0
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def table(**limits: Any) -> ConnectionTable:
    """A connection table with a short linger time; other deadlines are long unless given. Its clock is the
    loop's, so a pause of the test process ends no deadline."""
    given = {"head_seconds": 60.0, "linger_seconds": 0.1, "drain_seconds": 60.0, "sweep_seconds": 0.02}
    return ConnectionTable(ConnectionLimits(**given | limits), clock=asyncio.get_running_loop().time)


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Socket]:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield reader, writer
    finally:
        writer.close()


async def answered(connection: Socket, request: bytes = GET) -> tuple[bytes, bytes]:
    """Send one request; returns the head and body of the response."""
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    return head, await reader.readexactly(length)


async def trickled_until_cut(writer: asyncio.StreamWriter) -> None:
    """Send single bytes until the server has closed the connection."""
    await sent_until_cut(writer, b"x", 0.01)


async def sent_until_cut(writer: asyncio.StreamWriter, part: bytes, seconds: float) -> None:
    """Send ``part`` every ``seconds`` until the connection is closed."""
    try:
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(seconds)
    except ConnectionError:
        pass


async def emptied(connections: ConnectionTable) -> None:
    """Wait until the server holds no connection."""
    async with asyncio.timeout(SECONDS_MAX):
        while connections.count:  # noqa: ASYNC110 -- the other end is a socket
            await asyncio.sleep(0.01)


UNFINISHED = {
    "announced": b"POST /v1/programs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "chunked": b"POST /v1/programs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    "no such path": b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "a body that no operation reads": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
}


@pytest.mark.parametrize("request_", UNFINISHED.values(), ids=UNFINISHED.keys())
async def test_early_response_closes_a_trickling_connection(running: Installation, request_: bytes) -> None:
    connections = table()
    async with served(running.app, table=connections) as address, connected(address) as client:
        head, _ = await answered(client, request_)
        assert b"\r\nconnection: close\r\n" in head.lower()
        await trickled_until_cut(client[1])
        await emptied(connections)


async def test_early_response_discards_a_bounded_number_of_bytes(running: Installation) -> None:
    connections = table(linger_seconds=3600.0, linger_bytes_max=100_000)
    async with served(running.app, table=connections) as address, connected(address) as client:
        await answered(client, UNFINISHED["announced"])
        await sent_until_cut(client[1], b"x" * 10_000, 0)
        await emptied(connections)


async def test_early_response_reaches_a_client_that_is_still_sending(running: Installation) -> None:
    # Larger than the socket buffers: the client reads the response only after writing the whole body.
    body = b" " * 900_000
    head = f"POST /v1/programs HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with served(running.app, table=table(linger_seconds=60.0)) as address, connected(address) as client:
        client[1].write(head + body)
        await client[1].drain()
        assert (await client[0].readline()).startswith(b"HTTP/1.1 401")


async def test_finished_request_leaves_the_connection_open(running: Installation) -> None:
    async with served(running.app, table=table()) as address, connected(address) as client:
        body = b"POST /v1/programs HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        for request in (GET, body, GET):
            head, _ = await answered(client, request)
            assert b"connection: close" not in head.lower()


async def test_connections_from_one_address_are_limited(running: Installation) -> None:
    connections = table(per_address_max=2)
    async with served(running.app, table=connections) as address:
        async with connected(address) as first, connected(address) as second:
            await answered(first)
            await answered(second)
            async with connected(address) as third:
                refusal = await third[0].read()
                assert refusal.startswith(b"HTTP/1.1 429 ")
                assert b"retry-after: " in refusal.lower()
                assert json.loads(refusal.partition(b"\r\n\r\n")[2])["type"] == "/problems/rate-limited"
            await answered(first)
        await emptied(connections)
        async with connected(address) as again:
            await answered(again)


async def test_trusted_proxies_are_exempt_from_the_limit_for_each_address(running: Installation) -> None:
    connections = ConnectionTable(ConnectionLimits(per_address_max=1), (ip_network("127.0.0.0/8"),))
    async with served(running.app, table=connections) as address:
        async with connected(address) as first, connected(address) as second:
            await answered(first)
            await answered(second)


async def test_full_port_refuses_while_all_connections_are_busy(running: Installation) -> None:
    connections = table(connections_max=2)
    async with served(running.app, table=connections) as address:
        async with connected(address) as first, connected(address) as second, connected(address) as third:
            for busy in (first, second):
                busy[1].write(b"GET /he")
            assert (await third[0].read()).startswith(b"HTTP/1.1 429 ")


async def test_full_port_closes_the_longest_idle_connection(running: Installation) -> None:
    async with served(running.app, table=table(connections_max=2)) as address:
        async with connected(address) as first, connected(address) as second:
            await answered(first)
            await answered(second)
            await answered(first)
            async with connected(address) as third:
                await answered(third)
                assert await second[0].read() == b""
                await answered(first)


async def test_client_that_never_reads_is_disconnected(running: Installation) -> None:
    size = 64 * 1024 * 1024

    async def large(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(size)})

    connections = table(drain_seconds=0.1)
    app: Any = large
    for request in (GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")):
        async with served(app, table=connections) as address:
            host, port = address.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(request)
                async with asyncio.timeout(SECONDS_MAX):
                    while not connections.count:  # noqa: ASYNC110 -- the other end is a socket
                        await asyncio.sleep(0.01)
                await emptied(connections)


async def test_blank_lines_do_not_keep_a_connection_open(running: Installation) -> None:
    connections = table(head_seconds=0.3)
    async with served(running.app, table=connections) as address, connected(address) as client:
        await answered(client)
        client[1].write(b"\r\n")
        assert b" 408 " in await client[0].readline()
        await emptied(connections)


class Hands:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize("host", ["api", "vision"])
async def test_trickling_request_is_cut_within_15_seconds(running: Installation, host: str) -> None:
    app = running.app if host == "api" else create_vision_app(running.services)
    clock = Hands()
    connections = ConnectionTable(ConnectionLimits(sweep_seconds=0.01), clock=clock)
    beginnings = (b"", b"\r\n", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: 1")
    async with served(app, table=connections) as address:
        for beginning in beginnings:
            async with connected(address) as (reader, writer):
                began = clock.time
                writer.write(beginning)
                while not connections.count:  # noqa: ASYNC110 -- the other end is a socket
                    await asyncio.sleep(0.01)
                clock.time = began + 12.0
                assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
                clock.time = began + 15.0
                await trickled_until_cut(writer)
                await emptied(connections)


FILLER = b"x" * HTTP_HEAD_BYTES_MAX
TOO_LARGE = {
    "request line": b"GET /healthz?" + FILLER + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "one header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: " + FILLER + b"\r\n\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A:1\r\n" * 8_000 + b"\r\n",
    "second request": GET + b"GET /healthz?" + FILLER + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("request_", TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_head_above_the_limit_is_refused(running: Installation, request_: bytes) -> None:
    async with served(running.app, table=table()) as address, connected(address) as client:
        client[1].write(request_)
        text = await client[0].read()
        # The head of the second request may arrive before the response to the first.
        if not request_.startswith(GET):
            assert text.startswith(b"HTTP/1.1 431 ")
        assert text.count(b"HTTP/1.1 200") <= 1
        assert b"healthz" not in text


async def test_head_below_the_limit_is_read(running: Installation) -> None:
    path = b"GET /healthz?" + FILLER[:-200] + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    async with served(running.app, table=table()) as address, connected(address) as client:
        assert (await answered(client, path))[0].startswith(b"HTTP/1.1 200")


async def test_pipelined_requests_of_one_connection_are_limited(running: Installation) -> None:
    async with served(running.app, table=table()) as address, connected(address) as client:
        client[1].write(GET * (10 * HTTP_PIPELINE_MAX))
        text = await client[0].read()
        assert text.count(b"HTTP/1.1 200") <= HTTP_PIPELINE_MAX + 1


ENDLESS = {
    "chunk extension": b"1;" + b"x" * 10 * HTTP_FRAMING_BYTES_MAX,
    "trailers": b"0\r\n" + b"X-Filler: 1\r\n" * HTTP_FRAMING_BYTES_MAX,
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS.keys())
async def test_framing_without_content_is_limited(
    running: Installation, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.http.json_body.BODY_RECEIPT_SECONDS", 3600.0)
    caller = await running.caller("framing")
    connections = table()
    head = f"POST /v1/programs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.token}\r\n"
    more = "Idempotency-Key: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(running.app, table=connections) as address, connected(address) as client:
        client[1].write((head + more).encode() + body)
        await emptied(connections)


async def test_websocket_upgrade_is_ignored(running: Installation) -> None:
    connections = table(head_seconds=0.3)
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with served(running.app, table=connections) as address, connected(address) as client:
        assert b" 200 " in (await answered(client, upgrade))[0]
        await trickled_until_cut(client[1])
        await emptied(connections)
