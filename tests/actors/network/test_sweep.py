"""Slow and idle connections are closed; busy ones are not, and others are served."""

from __future__ import annotations

import asyncio
import socket

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.edge_times import EdgeTimes
from engine.iso8583.profiles import ISO87_ASCII
from tests.support.actors.network.support import request, running_edge, until
from tests.support.steady_loop import advance


async def test_slow_sender_is_cut_and_others_are_served(card_secrets: CardSecrets) -> None:
    async with (
        running_edge(card_secrets, times=EdgeTimes(receipt_seconds=0.2)) as harness,
        harness.peer() as slow,
        harness.peer() as other,
    ):
        stream = ISO87_ASCII.framing.frame(ISO87_ASCII.encode(request(1)))

        async def trickle() -> None:
            for byte in stream * 100:
                slow.writer.write(bytes([byte]))
                await asyncio.sleep(0.03)

        trickling = asyncio.create_task(trickle())
        answers = 0
        while not slow.reader.at_eof() and slow.reader.exception() is None:
            assert (await other.ask(request(2))).fields[39] == "00"
            answers += 1
            await asyncio.sleep(0.001)
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)
        assert answers > 0
        assert harness.edge.counts.cut == 1


async def test_peer_without_an_incomplete_frame_is_not_cut(card_secrets: CardSecrets) -> None:
    async with (
        running_edge(card_secrets, times=EdgeTimes(receipt_seconds=0.05)) as harness,
        harness.peer() as idle,
        harness.peer() as slow,
    ):
        slow.writer.write(b"\x00")
        assert await slow.is_closed()
        assert (await idle.ask(request())).fields[39] == "00"


async def test_peer_that_does_not_read_is_cut_and_others_are_served(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, times=EdgeTimes(receipt_seconds=1.0), open_max=10**6) as harness:
        unread_peer = socket.create_connection(harness.address)
        unread_peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread_peer.setblocking(False)
        stream = b"".join(
            ISO87_ASCII.framing.frame(ISO87_ASCII.encode(request(stan))) for stan in range(1000)
        )
        async with harness.peer() as other:
            loop = asyncio.get_running_loop()
            sending = asyncio.create_task(_send_forever(loop, unread_peer, stream))
            while not sending.done():
                assert (await other.ask(request(2))).fields[39] == "00"
                await asyncio.sleep(0.001)
            assert isinstance(sending.exception(), ConnectionError)
        assert harness.edge.counts.cut == 1
        unread_peer.close()


async def _send_forever(loop: asyncio.AbstractEventLoop, unread_peer: socket.socket, stream: bytes) -> None:
    """Send without reading, until the edge resets the connection."""
    while True:
        await loop.sock_sendall(unread_peer, stream)


@pytest.mark.parametrize("speaks", [True, False])
async def test_idle_connection_is_closed_after_its_limit(card_secrets: CardSecrets, speaks: bool) -> None:
    idle, silent = (0.05, 60.0) if speaks else (60.0, 0.05)
    async with (
        running_edge(card_secrets, times=EdgeTimes(idle_seconds=idle, silent_seconds=silent)) as harness,
        harness.peer() as peer,
    ):
        if speaks:
            assert (await peer.ask(request())).fields[39] == "00"
        assert await peer.is_closed()
        await until(lambda: harness.edge.counts.idle == 1)


async def test_connection_with_an_open_request_is_not_idle(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, times=EdgeTimes(idle_seconds=4.0, silent_seconds=4.0)) as harness:
        harness.owners.gate.clear()
        waiting = await harness.connect()
        waiting.send(request())
        await until(lambda: harness.owners.submitted)
        silent = await harness.connect()
        await until(lambda: harness.edge.connected == 2)
        advance(5.0)
        assert await silent.is_closed()
        harness.owners.gate.set()
        assert (await waiting.receive()).fields[39] == "00"
        await waiting.close()
        await silent.close()


async def test_peer_that_leaves_a_few_bytes_unread_is_cut(card_secrets: CardSecrets) -> None:
    """The unread bytes stay below the limit at which the edge stops reading; half of them are in the
    kernel."""
    async with running_edge(card_secrets, times=EdgeTimes(receipt_seconds=0.5), open_max=10**6) as harness:
        unread_peer = socket.socket()
        unread_peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread_peer.connect(harness.address)
        unread_peer.setblocking(False)
        loop = asyncio.get_running_loop()
        stream = b"".join(
            ISO87_ASCII.framing.frame(ISO87_ASCII.encode(request(stan))) for stan in range(2_500)
        )
        await loop.sock_sendall(unread_peer, stream)
        await until(lambda: harness.edge.counts.cut == 1)
        unread_peer.close()
