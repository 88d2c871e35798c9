"""The acquirer's session reconnects, matches answers, and reports the outcome of each message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.network.acquirer_session import AcquirerSession, NotConnectedError, SessionLostError
from actors.network.card_secrets import CardSecrets
from engine.iso8583.codec import encode
from engine.iso8583.framing import frame
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import network_management, refusal
from tests.support.actors.network.links import entry_of, running_link
from tests.support.actors.network.support import WAIT_SECONDS, Harness, Peer, request, running_edge, until


@asynccontextmanager
async def session_to(address: tuple[str, int]) -> AsyncIterator[AcquirerSession]:
    session = AcquirerSession(*address)
    session.start()
    try:
        await session.connected(WAIT_SECONDS)
        yield session
    finally:
        await session.stop()


class FakeEdge:
    """Accepts connections. The test sends the answers."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self.address = ("", 0)

    async def signed_on(self) -> Peer:
        """The next connection, after its sign-on was answered."""
        peer = await asyncio.wait_for(self.accepted.get(), WAIT_SECONDS)
        peer.send(network_management(await peer.receive()))
        return peer


@pytest.fixture
async def fake_edge() -> AsyncIterator[FakeEdge]:
    fake = FakeEdge()
    peers: list[Peer] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(Peer(reader, writer))
        await fake.accepted.put(peers[-1])

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    fake.address = (host, port)
    yield fake
    for peer in peers:
        await peer.close()
    server.close()


async def test_session_carries_300_open_requests(harness: Harness) -> None:
    async with session_to(harness.address) as session:
        futures = [session.send(request(stan)) for stan in range(300)]
        answers = await asyncio.gather(*futures)
    assert [answer.fields[11] for answer in answers] == [f"{stan:06d}" for stan in range(300)]


async def test_answers_match_in_any_order(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    peer = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    futures = {stan: session.send(request(stan)) for stan in (1, 2, 3)}
    received = {message.fields[11]: message for message in [await peer.receive() for _ in range(3)]}
    for stan in ("000003", "000001", "000002"):
        peer.send(refusal(received[stan], stan[-2:]))
    assert {stan: (await future).fields[39] for stan, future in futures.items()} == {
        1: "01",
        2: "02",
        3: "03",
    }
    await session.stop()


async def test_unmatched_answers_are_counted(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    peer = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    peer.send(refusal(request(9), "00"))
    peer.writer.write(frame(b"nonsense") + b"\x00\x00")
    await until(lambda: session.unmatched == 3)
    await session.stop()


async def test_send_without_a_connection_raises() -> None:
    session = AcquirerSession("127.0.0.1", 1)
    with pytest.raises(NotConnectedError):
        session.send(request())
    session.start()
    with pytest.raises(NotConnectedError):
        await session.connected(0.01)
    await session.stop()
    await session.stop()


async def test_lost_connection_fails_open_requests_and_reconnects(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    peer = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    lost = session.send(request())
    await peer.receive()
    await peer.close()
    with pytest.raises(SessionLostError):
        await lost
    reconnected = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    repeated = session.send(as_repeat(request()))
    repeat = await reconnected.receive()
    assert repeat.mti == "0101"
    reconnected.send(refusal(repeat, "00"))
    assert (await repeated).fields[39] == "00"
    await session.stop()


async def test_session_connects_to_an_edge_that_starts_later(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as first:
        address = first.address
    session = AcquirerSession(*address)
    session.start()
    with pytest.raises(NotConnectedError):
        await session.connected(0.05)
    async with running_edge(card_secrets) as harness:
        await harness.edge.stop()
        harness.address = await harness.edge.start(*address)
        await session.connected(WAIT_SECONDS)
        assert (await session.send(request())).fields[39] == "00"
        await session.stop()


async def test_repeat_shares_the_answer_of_its_original(harness: Harness) -> None:
    harness.owners.gate.clear()
    async with session_to(harness.address) as session:
        first = session.send(request())
        second = session.send(as_repeat(request()))
        await until(lambda: len(harness.owners.submitted) == 2)
        harness.owners.gate.set()
        assert await first == await second
        await until(lambda: session.unmatched == 1)


async def test_echo_test_is_answered(harness: Harness) -> None:
    async with session_to(harness.address) as session:
        await session.echo()


async def test_unanswered_echo_test_ends_the_connection(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address, echo_seconds=0.02, reply_seconds=0.1)
    session.start()
    peer = await fake_edge.signed_on()
    repeat = await peer.receive()
    assert (repeat.mti, repeat.fields[70]) == ("0800", "301")
    # Without an answer to the echo test, the session closes the connection and reconnects.
    await fake_edge.signed_on()
    await session.stop()


async def test_refused_sign_on_does_not_connect(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    for _ in range(2):
        peer = await asyncio.wait_for(fake_edge.accepted.get(), WAIT_SECONDS)
        peer.send(refusal(await peer.receive(), "96"))
        assert await peer.is_closed()
    with pytest.raises(NotConnectedError):
        await session.connected(0)
    await session.stop()


async def test_stop_signs_off(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    peer = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    unanswered = session.send(request())
    await peer.receive()
    await session.stop()
    assert (await peer.receive()).fields[70] == "002"
    with pytest.raises(SessionLostError):
        await unanswered


async def test_answer_to_a_forgotten_request_is_unmatched(fake_edge: FakeEdge) -> None:
    session = AcquirerSession(*fake_edge.address)
    session.start()
    peer = await fake_edge.signed_on()
    await session.connected(WAIT_SECONDS)
    session.send(request())
    session.forget(request())
    peer.send(refusal(await peer.receive(), "00"))
    await until(lambda: session.unmatched == 1)
    await session.stop()


def test_example_fits_a_frame() -> None:
    assert len(encode(request())) < 4096
    assert isinstance(request(), Message)


async def test_echo_tests_and_sign_offs_of_the_edge_are_answered(card_secrets: CardSecrets) -> None:
    entry = entry_of(sign_on="required", echo_seconds=0.02)
    async with running_link(card_secrets, entry, receipt_seconds=0.08) as harness:
        session = AcquirerSession(*harness.address)
        session.start()
        await session.connected(60)
        before = harness.edge.counts.bytes_received
        await until(lambda: harness.edge.counts.bytes_received > before + 200)
        await harness.edge.sign_off()
        await until(lambda: harness.edge.state == "signed_off")
        assert harness.edge.counts.last_error is None
        assert (harness.edge.counts.connections, session.unmatched) == (1, 0)
        await session.stop()
