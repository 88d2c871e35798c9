"""The acquirer's session reconnects, matches answers, and reports the outcome of each message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.network.acquirer_session import AcquirerSession, NotConnectedError, SessionLostError
from actors.network.card_secrets import CardSecrets
from actors.network.edge_times import EdgeTimes
from engine.iso8583.acquirer import quoted_authorization_id
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII, SHIPPED, parse_profile
from engine.iso8583.respond import network_management, refusal
from tests.support.actors.network.links import entry_of, running_link
from tests.support.actors.network.support import WAIT_SECONDS, Harness, Peer, request, running_edge, until


@asynccontextmanager
async def session_to(
    address: tuple[str, int], profile: Profile = ISO87_ASCII
) -> AsyncIterator[AcquirerSession]:
    session = AcquirerSession(*address, profile=profile)
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


HOST_PROFILE = parse_profile(
    """
name = "host"
based_on = "iso87-ebcdic"
frame = { length = "ascii-4" }
header = { value = "6000010002", swaps = [[1, 3, 2]] }
private = { network_transaction_id = { field = 62 }, authorization_id = { field = 63 } }
[messages]
authorization = ["0200"]
advice = ["0120"]
presentment = ["0220"]
reversal = ["0420"]
network_management = ["0800"]
""",
    "host.toml",
)


VENDOR_PROFILE = parse_profile(
    """
name = "vendor"
based_on = "iso87-binary"
frame = { length = "in-header", length_at = 2 }
header = { value = "160100000000aaaabbbb", swaps = [[6, 8, 2]] }
""",
    "vendor.toml",
)


@pytest.mark.parametrize(
    "profile", [*SHIPPED.values(), HOST_PROFILE, VENDOR_PROFILE], ids=lambda profile: profile.name
)
async def test_session_and_edge_share_a_profile(card_secrets: CardSecrets, profile: Profile) -> None:
    async with (
        running_edge(card_secrets, profile=profile) as harness,
        session_to(harness.address, profile) as session,
    ):
        await session.echo()
        approved = await session.send(request())
        repeated = await session.send(as_repeat(request()))
        reversal = request(124, "0420", de90="0100" + "000123" + "1121103000" + "424242".zfill(11) + "0" * 11)
        reversed_ = await session.send(reversal)
        malformed = await session.send(request(125, de3="990000"))
    assert approved == repeated
    assert (approved.mti, approved.fields[39], approved.fields[4]) == ("0110", "00", request().fields[4])
    assert quoted_authorization_id(approved) == harness.owners.authorizations[0].id
    assert (reversed_.mti, reversed_.fields[39]) == ("0430", "00")
    assert malformed.fields[39] == "30"
    assert harness.owners.submitted[0].command_key == harness.owners.submitted[1].command_key


async def test_broken_stream_ends_the_connection(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, profile=HOST_PROFILE) as harness, harness.peer() as peer:
        peer.writer.write(b"GET / HTTP/1.1")
        assert await peer.is_closed()
        assert harness.edge.counts.malformed == 1


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
    peer.writer.write(ISO87_ASCII.framing.frame(b"nonsense") + b"\x00\x00")
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
    session = AcquirerSession(*fake_edge.address, echo_seconds=0.02, reply_seconds=0.5)
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
    assert len(ISO87_ASCII.encode(request())) < 4096
    assert isinstance(request(), Message)


async def test_echo_tests_and_sign_offs_of_the_edge_are_answered(card_secrets: CardSecrets) -> None:
    entry = entry_of(sign_on="required", echo_seconds=0.02)
    async with running_link(card_secrets, entry, times=EdgeTimes(receipt_seconds=0.08)) as harness:
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
