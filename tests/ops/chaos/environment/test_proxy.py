"""The proxy passes bytes, holds them back, delays them or drops them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from ops.chaos.environment.proxy import HOST, Proxy


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of an echo server."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1024):
                writer.write(data)
        except ConnectionError:
            pass  # reset
        finally:
            writer.close()

    async with await asyncio.start_server(echo, HOST, 0) as server:
        async with Proxy(server.sockets[0].getsockname()[1]) as proxy:
            yield proxy


@asynccontextmanager
async def asking(proxy: Proxy) -> AsyncIterator[asyncio.StreamReader]:
    """An open connection with one answered message."""
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"hello")
    yield reader
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def hung_up(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def test_bytes_pass_an_undisturbed_proxy(proxy: Proxy) -> None:
    async with asking(proxy) as reader:
        assert await reader.readexactly(5) == b"hello"
        assert proxy.connections == 1


async def test_held_bytes_pass_after_release(proxy: Proxy) -> None:
    proxy.hold()
    async with asking(proxy) as reader:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.readexactly(1)
        proxy.release()
        assert await reader.readexactly(5) == b"hello"


async def test_held_answers_wait_while_requests_pass(proxy: Proxy) -> None:
    proxy.hold_answers()
    async with asking(proxy) as reader:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.readexactly(1)
        proxy.pass_answers()
        assert await reader.readexactly(5) == b"hello"
    async with asking(proxy) as reader:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.readexactly(1)
        proxy.release_answers()
        assert await reader.readexactly(5) == b"hello"


async def test_delayed_bytes_arrive_late(proxy: Proxy) -> None:
    loop = asyncio.get_running_loop()
    proxy.delay_seconds = 0.05
    async with asking(proxy) as reader:
        began = loop.time()
        assert await reader.readexactly(5) == b"hello"
        assert loop.time() - began >= 0.1


async def test_delayed_bytes_keep_their_order_when_the_delay_ends(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    proxy.delay_seconds = 0.2
    writer.write(b"late")
    await asyncio.sleep(0.05)
    proxy.delay_seconds = 0.0
    writer.write(b"soon")
    assert await reader.readexactly(8) == b"latesoon"
    writer.close()


async def test_cut_resets_every_connection(proxy: Proxy) -> None:
    async with asking(proxy) as reader:
        assert await reader.readexactly(5) == b"hello"
        assert proxy.cut() == 1
        assert await hung_up(reader)
        assert proxy.connections == 0


async def test_a_swallowed_answer_resets_the_connection(proxy: Proxy) -> None:
    proxy.swallows_answers = True
    async with asking(proxy) as reader:
        assert await hung_up(reader)
        assert proxy.lost_answers == 1


async def test_an_unreachable_server_resets_the_client(unused_tcp_port: int) -> None:
    async with Proxy(unused_tcp_port) as proxy:
        async with asking(proxy) as reader:
            assert await hung_up(reader)
