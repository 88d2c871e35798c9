"""The metrics port on real sockets: slow clients are disconnected, and connections are limited."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from actors.cluster.metrics_port import MetricsPort
from actors.connections import ConnectionLimits, ConnectionTable
from actors.tls import ServerTls

SECONDS_MAX = 60.0
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class ManualClock:
    """A clock that tests move."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


@asynccontextmanager
async def port(table: ConnectionTable, tls: ServerTls | None = None) -> AsyncIterator[int]:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="up 1\n")

    app = web.Application()
    app.router.add_get("/metrics", page)
    serving = MetricsPort(app, table, tls)
    await serving.start("127.0.0.1", 0)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield serving.port
    finally:
        await serving.stop()
        await serving.stop()


async def test_each_connection_carries_one_request() -> None:
    async with port(ConnectionTable(ConnectionLimits())) as number:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.write(GET)
            text = await reader.read()
            assert text.startswith(b"HTTP/1.1 200 ")
            assert text.endswith(b"up 1\n")
            writer.close()


async def test_page_is_served_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("metrics.test")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    client = ssl.create_default_context()
    authority.configure_trust(client)
    table = ConnectionTable(ConnectionLimits())
    async with port(table, ServerTls(certificate, key)) as number:
        for _ in range(2):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", number, ssl=client, server_hostname="metrics.test"
            )
            writer.write(GET)
            assert (await reader.read()).endswith(b"up 1\n")
            writer.close()
        # Plain HTTP gets no answer.
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        writer.write(GET)
        with suppress(ConnectionError):
            assert b"200" not in await reader.read()
        writer.close()


@pytest.mark.parametrize("beginning", [b"", b"GET /met", GET[:-2] + b"Content-Length: 9\r\n\r\nx"])
async def test_trickling_request_is_cut_within_15_seconds(beginning: bytes) -> None:
    clock = ManualClock()
    table = ConnectionTable(ConnectionLimits(sweep_seconds=0.01), clock=clock)
    async with port(table) as number:
        _, writer = await asyncio.open_connection("127.0.0.1", number)
        writer.write(beginning)
        while not table.count:  # noqa: ASYNC110 -- the other end is a socket
            await asyncio.sleep(0.01)
        clock.time = 15.0
        while table.count:  # noqa: ASYNC110 -- the other end is a socket
            await asyncio.sleep(0.01)
        writer.close()


async def test_connections_are_limited() -> None:
    table = ConnectionTable(ConnectionLimits(connections_max=2, per_address_max=2))
    async with port(table) as number:
        waiting = [await asyncio.open_connection("127.0.0.1", number) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        writer.write(GET)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        for _, each in (*waiting, (reader, writer)):
            each.close()
