"""A faulty, slow or greedy connection does not affect the others."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from actors.network.card_secrets import CardSecrets
from engine.iso8583.acquirer import network_request
from engine.iso8583.profiles import ISO87_ASCII
from engine.limits import EDGE_CONNECTIONS_PER_ADDRESS_MAX, EDGE_IN_FLIGHT_MAX
from tests.support.actors.network.support import Harness, Peer, request, running_edge, until
from tests.support.steady_loop import advance


async def test_one_connection_carries_500_open_requests(harness: Harness) -> None:
    async with harness.peer() as peer:
        peer.send(*(request(stan) for stan in range(500)))
        answers = [await peer.receive() for _ in range(500)]
    assert {answer.fields[11] for answer in answers} == {f"{stan:06d}" for stan in range(500)}
    assert {answer.fields[39] for answer in answers} == {"00"}


async def test_slow_sender_is_cut_and_others_are_served(card_secrets: CardSecrets) -> None:
    async with (
        running_edge(card_secrets, receipt_seconds=0.2) as harness,
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
        running_edge(card_secrets, receipt_seconds=0.05) as harness,
        harness.peer() as idle,
        harness.peer() as slow,
    ):
        slow.writer.write(b"\x00")
        assert await slow.is_closed()
        assert (await idle.ask(request())).fields[39] == "00"


async def test_peer_that_does_not_read_is_cut_and_others_are_served(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, receipt_seconds=1.0, open_max=10**6) as harness:
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


async def test_too_many_open_requests_pause_only_their_connection(card_secrets: CardSecrets) -> None:
    extra = EDGE_IN_FLIGHT_MAX // 2
    total = EDGE_IN_FLIGHT_MAX + extra
    async with (
        running_edge(card_secrets, open_max=10 * total, receipt_seconds=600) as harness,
        harness.peer() as flooding,
        harness.peer() as other,
    ):
        harness.owners.gate.clear()
        for start in range(0, total, 500):
            flooding.send(*(request(stan) for stan in range(start, min(start + 500, total))))
        await until(lambda: len(harness.owners.submitted) >= EDGE_IN_FLIGHT_MAX)
        other.send(request(0, de32="999"))
        await until(lambda: harness.owners.submitted[-1].wire.acquirer_id == "999")
        assert len(harness.owners.submitted) < total + 1
        harness.owners.gate.set()
        assert (await other.receive()).fields[39] == "00"
        answers = [await flooding.receive() for _ in range(total)]
        assert len({answer.fields[11] for answer in answers}) == total


async def test_authorization_beyond_the_open_limit_gets_91(
    card_secrets: CardSecrets,
) -> None:
    """The refusal is immediate and applies to all connections. Repeats and other messages are not refused."""
    async with running_edge(card_secrets, open_max=3) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        peer.send(*(request(stan) for stan in range(3)))
        await until(lambda: len(harness.owners.submitted) == 3)
        async with harness.peer() as other:
            assert (await other.ask(request(7))).fields[39] == "91"
        assert (await peer.ask(request(8))).fields[39] == "91"
        assert (await peer.ask(network_request("301", "000001", 0))).fields[39] == "00"
        peer.send(request(2, "0101"))
        await until(lambda: len(harness.owners.submitted) == 4)
        assert (harness.edge.counts.shed, harness.respondent.open) == (2, 4)
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for _ in range(4)] == ["00"] * 4
        assert (await peer.ask(request(8))).fields[39] == "00"
        assert {command.wire.stan for command in harness.owners.submitted} == {
            "000000", "000001", "000002", "000008",
        }  # fmt: skip


async def test_deferred_requests_do_not_count_towards_the_open_limit(card_secrets: CardSecrets) -> None:
    """A slow decision endpoint of one programme does not cause refusals for others."""
    deferred = [3]
    async with running_edge(card_secrets, open_max=3, deferred=lambda: deferred[0]) as harness:
        async with harness.peer() as peer:
            harness.owners.gate.clear()
            peer.send(*(request(stan) for stan in range(6)))
            await until(lambda: len(harness.owners.submitted) == 6)
            assert (await peer.ask(request(7))).fields[39] == "91"
            deferred[0] = 4
            peer.send(request(8))
            await until(lambda: len(harness.owners.submitted) == 7)
            harness.owners.gate.set()
            assert [(await peer.receive()).fields[39] for _ in range(7)] == ["00"] * 7


async def test_congested_owner_queues_refuse_authorizations(card_secrets: CardSecrets) -> None:
    congested = [True, False]
    async with (
        running_edge(card_secrets, congested=lambda: congested.pop(0)) as harness,
        harness.peer() as peer,
    ):
        assert (await peer.ask(request(1))).fields[39] == "91"
        assert (await peer.ask(request(1))).fields[39] == "00"
        assert harness.edge.counts.shed == 1


async def test_connection_without_requests_is_closed_first_at_the_limit(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, connections_max=3) as harness:
        spoken = [await harness.connect() for _ in range(2)]
        for peer in spoken:
            assert (await peer.ask(request())).fields[39] == "00"
        silent = await harness.connect()
        await until(lambda: harness.edge.connected == 3)
        newcomer = await harness.connect()
        assert (await newcomer.ask(request())).fields[39] == "00"
        assert await silent.is_closed()
        another = await harness.connect()
        assert (await another.ask(request())).fields[39] == "00"
        assert await spoken[0].is_closed()
        assert harness.edge.counts.refused == 2
        for peer in [*spoken, silent, newcomer, another]:
            await peer.close()


async def test_busy_connection_is_not_closed_for_a_new_one(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, connections_max=2) as harness:
        harness.owners.gate.clear()
        busy = [await harness.connect() for _ in range(2)]
        for stan, peer in enumerate(busy):
            peer.send(request(stan))
        await until(lambda: len(harness.owners.submitted) == 2)
        refused = await harness.connect()
        assert await refused.is_closed()
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for peer in busy] == ["00", "00"]
        for peer in [*busy, refused]:
            await peer.close()


async def test_1500_idle_connections_do_not_keep_a_new_one_out(card_secrets: CardSecrets) -> None:
    """Each idle connection has sent an echo test. The network that connected before them keeps its
    connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8_192), hard), hard))
    echo = network_request("301", "000007", 1_795_253_400_000)
    async with running_edge(card_secrets) as harness:
        network = await harness.connect()
        assert (await network.ask(request(1))).fields[39] == "00"
        idle: list[Peer] = []
        for _ in range(1_500):
            idle.append(await harness.connect())
            assert (await idle[-1].ask(echo)).fields[39] == "00"
        assert harness.edge.connected == EDGE_CONNECTIONS_PER_ADDRESS_MAX
        newcomer = await harness.connect()
        assert (await newcomer.ask(request(2))).fields[39] == "00"
        assert (await network.ask(request(3))).fields[39] == "00"
        assert harness.edge.counts.refused == 1_502 - EDGE_CONNECTIONS_PER_ADDRESS_MAX
        for peer in [network, newcomer, *idle]:
            peer.writer.transport.abort()


@pytest.mark.parametrize("speaks", [True, False])
async def test_idle_connection_is_closed_after_its_limit(card_secrets: CardSecrets, speaks: bool) -> None:
    idle, silent = (0.05, 60.0) if speaks else (60.0, 0.05)
    async with (
        running_edge(card_secrets, idle_seconds=idle, silent_seconds=silent) as harness,
        harness.peer() as peer,
    ):
        if speaks:
            assert (await peer.ask(request())).fields[39] == "00"
        assert await peer.is_closed()
        await until(lambda: harness.edge.counts.idle == 1)


async def test_connection_with_an_open_request_is_not_idle(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, idle_seconds=4.0, silent_seconds=4.0) as harness:
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
    async with running_edge(card_secrets, receipt_seconds=0.5, open_max=10**6) as harness:
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


async def test_stop_sends_the_answers_of_open_requests(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness:
        harness.owners.gate.clear()
        peer = await harness.connect()
        peer.send(request())
        await until(lambda: harness.owners.submitted)
        stopping = asyncio.create_task(harness.edge.stop())
        with pytest.raises(ConnectionError):
            await _refused_connection(harness)
        harness.owners.gate.set()
        assert (await peer.receive()).fields[39] == "00"
        assert await peer.is_closed()
        await stopping
        await harness.edge.stop()
        await peer.close()


async def _refused_connection(harness: Harness) -> None:
    while True:
        late = Peer(*await asyncio.open_connection(*harness.address))
        await late.close()


async def test_disconnected_peer_leaves_no_connection_and_can_repeat(harness: Harness) -> None:
    harness.owners.gate.clear()
    peer = await harness.connect()
    peer.send(request())
    await until(lambda: harness.owners.submitted)
    await peer.close()
    await until(lambda: harness.edge.connected == 0)
    harness.owners.gate.set()
    await until(lambda: harness.respondent.counts.answered == 1)
    async with harness.peer() as reconnected:
        assert (await reconnected.ask(request(mti="0101"))).fields[39] == "00"
