"""Clients that send one byte at a time, in a process of their own (G13): shoppers then wait for the servers
and not for their own event loop.

The process reads a ``SlowPlan`` as a line of JSON. It prints ``connected`` once all clients are connected,
and once all are disconnected, the longest time for which one was connected, in seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

import msgspec


class SlowServer(msgspec.Struct):
    """A server's address and the beginning of a message that it waits for."""

    host: str
    port: int
    beginning: bytes


class SlowPlan(msgspec.Struct):
    """``clients`` connections to each server, with ``byte_seconds`` between two bytes of a client and at most
    ``bytes_max`` bytes."""

    servers: list[SlowServer]
    clients: int
    byte_seconds: float
    bytes_max: int = 40


class SlowClients:
    """The clients of ``plan``."""

    def __init__(self, plan: SlowPlan) -> None:
        self._plan = plan
        self._clients: list[asyncio.Task[float]] = []

    async def connect(self) -> None:
        """Connect all clients and start to send. Raises OSError."""
        for server in self._plan.servers:
            for _ in range(self._plan.clients):
                reader, writer = await asyncio.open_connection(server.host, server.port)
                self._clients.append(asyncio.create_task(self._send(server, reader, writer)))

    async def disconnected(self) -> float:
        """Wait until the servers have disconnected all clients, or all bytes are sent; returns the longest
        connection in seconds."""
        return max(await asyncio.gather(*self._clients))

    async def _send(
        self, server: SlowServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> float:
        began = time.monotonic()
        hung_up = asyncio.create_task(_hung_up(reader))
        try:
            for byte in server.beginning.ljust(self._plan.bytes_max)[: self._plan.bytes_max]:
                with suppress(ConnectionError):
                    writer.write(bytes((byte,)))
                done, _ = await asyncio.wait({hung_up}, timeout=self._plan.byte_seconds)
                if done:
                    break
            return time.monotonic() - began
        finally:
            hung_up.cancel()
            writer.transport.abort()


async def _hung_up(reader: asyncio.StreamReader) -> None:
    """Return when the other side has closed the connection."""
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass


async def main() -> None:
    """Run the plan on standard input."""
    clients = SlowClients(msgspec.json.decode(sys.stdin.buffer.readline(), type=SlowPlan))
    await clients.connect()
    print("connected", flush=True)
    print(await clients.disconnected(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
