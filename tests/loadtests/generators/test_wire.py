"""The ISO 8583 load generator against a peer that answers with the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.content_reader import read_authorization
from engine.iso8583.framing import BadFrame, FrameCutter
from engine.iso8583.identity import wire_identity
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import answered, refusal
from engine.replies import WireAnswer
from loadtests.generators.wire import ACQUIRER_ID, WireLoad, places, stamp, template
from loadtests.generators.workload import SALE, Card
from tests.support.ops.waiting import wait_until

CARDS = [Card(f"card-{number}", f"456000000000000{number}", "2911") for number in range(5)]


class Peer(asyncio.Protocol):
    """Answers every request, declines those of one card, and records all requests."""

    def __init__(self, seen: list[Message], declined: str | None) -> None:
        self._seen = seen
        self._declined = declined
        self._cutter = FrameCutter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for payload in self._cutter.feed(data):
            assert not isinstance(payload, BadFrame)
            request = ISO87_ASCII.decode(payload)
            self._seen.append(request)
            answer = answered(request, WireAnswer("00", "0" * 36, "ABC123", 100))
            if request.fields[2] == self._declined:
                answer = refusal(request, "51")
            assert self._transport is not None
            self._transport.write(ISO87_ASCII.framing.frame(ISO87_ASCII.encode(answer)))


@pytest.fixture
async def seen() -> list[Message]:
    """The requests that the peer has received."""
    return []


@pytest.fixture
async def address(seen: list[Message]) -> AsyncIterator[tuple[str, int]]:
    """A peer."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Peer(seen, CARDS[0].pan), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()


def test_a_filled_template_equals_the_engines_message() -> None:
    at_ms = 1_790_000_000_000
    head, middle, tail = template(CARDS[1])
    now = stamp(at_ms)
    built = b"".join((head, now.de7, b"000123", now.de12_13, middle, now.de37, b"000123", tail))
    sale = Sale(pan=CARDS[1].pan, expiry=CARDS[1].expiry, **SALE)
    assert built == ISO87_ASCII.framing.frame(
        ISO87_ASCII.encode(authorization_request(sale, References(ACQUIRER_ID, "000123", at_ms)))
    )


def test_places_are_the_offsets_of_the_values() -> None:
    message = Message("0110", {2: "4560000000000001", 4: "000000000100", 32: "800001", 39: "00", 70: "001"})
    payload = ISO87_ASCII.encode(message).decode()
    assert {number: payload[begin:end] for number, (begin, end) in places(message).items()} == message.fields


async def test_a_closed_loop_keeps_its_number_in_flight_and_counts_every_answer(
    address: tuple[str, int], seen: list[Message]
) -> None:
    load = WireLoad([address], CARDS, connections=2, in_flight=8)
    await load.start()
    await wait_until(lambda: len(seen) >= 200)
    samples = await load.stop()
    assert len(samples.started) == len(samples.done) == len(seen)
    assert samples.refused == sum(request.fields[2] == CARDS[0].pan for request in seen) > 0
    assert samples.approved == len(seen) - samples.refused
    assert samples.lost == 0
    assert all(started <= done for started, done in zip(samples.started, samples.done, strict=True))
    assert len({wire_identity(request) for request in seen}) == len(seen), "every message has its own name"
    assert {request.fields[2] for request in seen} == {card.pan for card in CARDS}
    amounts = {read_authorization(request).purchase.amount_minor for request in seen}
    assert amounts == {SALE["amount_minor"]}


async def test_an_open_loop_counts_from_the_instant_a_request_was_due(
    address: tuple[str, int], seen: list[Message]
) -> None:
    load = WireLoad([address], CARDS, connections=2, per_second=2000.0)
    await load.start()
    await wait_until(lambda: len(seen) >= 100)
    samples = await load.stop()
    due = sorted(samples.started)
    steps = [later - earlier for earlier, later in pairwise(due)]
    assert steps == pytest.approx([1 / 2000.0] * len(steps), abs=1e-6)
    assert len(samples.lateness) == len(seen)
    assert min(samples.lateness) >= 0


async def test_unanswered_requests_count_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtests.generators.wire.ANSWER_SECONDS_MAX", 0.05)
    deaf = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    load = WireLoad([deaf.sockets[0].getsockname()], CARDS, connections=1, in_flight=4)
    await load.start()
    samples = await load.stop()
    assert (samples.lost, samples.done) == (4, [])
    deaf.close()
    await deaf.wait_closed()
