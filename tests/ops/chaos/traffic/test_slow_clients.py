"""Slow clients send a byte at a time and report how long a server kept them."""

from __future__ import annotations

import asyncio

from ops.chaos.traffic.slow_clients import SlowClients, SlowPlan, SlowServer

BEGINNING = b"POST "


async def serve(received: list[bytes], close_after: int) -> asyncio.Server:
    """A server that closes each connection after ``close_after`` bytes."""

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readexactly(close_after))
        writer.close()

    return await asyncio.start_server(read, "127.0.0.1", 0)


async def test_clients_are_disconnected_by_the_server() -> None:
    received: list[bytes] = []
    async with await serve(received, close_after=7) as server:
        host, port = server.sockets[0].getsockname()
        clients = SlowClients(SlowPlan([SlowServer(host, port, BEGINNING)], clients=3, byte_seconds=0.01))
        await clients.connect()
        seconds = await clients.disconnected()
    assert received == [b"POST   "] * 3
    assert seconds > 0


async def test_clients_end_after_their_last_byte() -> None:
    received: list[bytes] = []
    async with await serve(received, close_after=1) as server:
        host, port = server.sockets[0].getsockname()
        plan = SlowPlan([SlowServer(host, port, BEGINNING)] * 2, clients=2, byte_seconds=0.01, bytes_max=1)
        clients = SlowClients(plan)
        await clients.connect()
        await clients.disconnected()
    assert received == [b"P"] * 4
