"""Damaged messages of each shipped profile: valid ones with a few bytes changed (G12).

A message that can be decoded gets one answer, which an independent decoder can read. Other messages are
refused if their header is readable. No message raises an exception in the edge.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.iso8583.codec import DecodeError
from engine.iso8583.content_reader import FUNCTIONS
from engine.iso8583.framing import FrameCutter
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII, SHIPPED
from engine.iso8583.respond import SYSTEM_ERROR, malformed
from tests.support.actors.network.support import Harness, running_edge
from tests.support.conformance.conversation import ConversationGenerator
from tests.support.conformance.dialects import DIALECTS
from tests.support.conformance.peer import decode as decode_independently

EXAMPLES = 20_000 if "STANCHION_CHAOS" in os.environ else 30
DAMAGED = 26_000
"""Damaged messages of each profile."""
START = datetime(2026, 11, 21, 10, tzinfo=UTC)
PLAIN = [
    delivery.payload
    for seed in range(20)
    for delivery in ConversationGenerator(random.Random(seed), START, 10, 2, slow=False).generate()
]
CARD_DATA = {
    35: "4111111111111111=29112010000012300000",
    52: "0123456789ABCDEF",
    55: "820219805F3401009F2608A1A2A3A4A5A6A7A8700C9F360200208407A0000000031010",
    64: "0123456789ABCDEF",
}
"""Track 2, PIN block, EMV data and MAC."""
WITH_CARD_DATA = [
    ISO87_ASCII.encode(Message(plain.mti, plain.fields | {22: "901", number: value}))
    for plain in map(ISO87_ASCII.decode, PLAIN[:40])
    for number, value in CARD_DATA.items()
]
CORPUS = PLAIN + WITH_CARD_DATA
INTERESTING = [b"\x00", b"\xff", b"\x80", b" ", b"0", b"9", b"F", b"f", b"\r\n", b"%s", b"0" * 20]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message of a generated conversation, damaged in up to four places."""
    payload = bytearray(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(payload) - 1)))
        kind = draw(st.sampled_from(["flip", "put", "drop", "cut", "double", "bitmap"]))
        if kind == "flip" and payload:
            payload[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "put":
            payload[at:at] = draw(st.sampled_from(INTERESTING))
        elif kind == "drop":
            del payload[at : at + draw(st.integers(1, 8))]
        elif kind == "cut":
            del payload[at:]
        elif kind == "double":
            payload[at:at] = payload[at : at + draw(st.integers(1, 30))]
        elif len(payload) >= 20:
            payload[4:20] = f"{draw(st.integers(0, 2**64 - 1)):016X}".encode()
    return bytes(payload)


_numbers = itertools.count()


class Connection:
    """The connection of one message, each with its own address, so the limit of card testing does not
    apply."""

    def __init__(self, profile: Profile = ISO87_ASCII) -> None:
        self.profile = profile
        self.answers: list[Message] = []
        self.open = 0
        self.malformed_frames = 0
        self.source = f"fuzz-{next(_numbers)}"

    def answer(self, response: Message) -> None:
        self.answers.append(response)

    def request_started(self) -> None:
        self.open += 1

    def request_finished(self) -> None:
        self.open -= 1

    def request_recognized(self) -> None: ...

    def card_recognized(self) -> None: ...


def dispatch(harness: Harness, payload: bytes, profile: Profile = ISO87_ASCII) -> Connection:
    """Handle one payload that has left the queue."""
    connection = Connection(profile)
    connection.request_started()
    arrived = asyncio.get_running_loop().time()
    harness.edge._dispatcher.dispatch(connection, payload, arrived)  # type: ignore[arg-type]
    return connection


def is_answered(payload: bytes, profile: Profile = ISO87_ASCII) -> bool:
    """Whether ``payload`` is a request, as far as it can be decoded."""
    try:
        return profile.messages.is_request(profile.decode(payload).mti)
    except DecodeError as error:
        return malformed(error.read, profile) is not None


def damaged(rng: random.Random, payload: bytes) -> bytes:
    """``payload`` with one to four damaged places."""
    damaged = bytearray(payload)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(damaged)) if damaged else 0
        match rng.randrange(5):
            case 0 if damaged:
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                damaged[at:at] = rng.choice(INTERESTING)
            case 2:
                del damaged[at : at + rng.randint(1, 8)]
            case 3:
                damaged[at:at] = damaged[at : at + rng.randint(1, 30)]
            case _:
                damaged[at : at + 1] = rng.randbytes(1)
    return bytes(damaged)


@pytest.mark.parametrize("name", SHIPPED)
async def test_damaged_message_is_answered_without_a_fault(name: str, vault: Vault) -> None:
    profile, dialect = SHIPPED[name], DIALECTS[name]
    rng = random.Random(name)
    corpus = [dialect.encode(decode_independently(payload)) for payload in PLAIN]
    # The independent codec packs no track separators.
    now_ms = int(START.timestamp() * 1000)
    corpus += [
        profile.encode(profile.own_request(ISO87_ASCII.decode(payload), now_ms)) for payload in WITH_CARD_DATA
    ]
    system_error = {profile.codes.own(SYSTEM_ERROR, function) for function in FUNCTIONS}
    async with running_edge(CardSecrets(vault), profile=profile) as harness:
        for _ in range(DAMAGED // 100):
            payloads = [damaged(rng, rng.choice(corpus)) for _ in range(100)]
            connections = [dispatch(harness, payload, profile) for payload in payloads]
            await harness.respondent.drain()
            for connection, payload in zip(connections, payloads, strict=True):
                assert len(connection.answers) == is_answered(payload, profile)
                assert connection.open == 0
                for answer in connection.answers:
                    assert profile.decode(profile.encode(answer)) == answer
                    assert answer.fields[39] not in system_error
        assert harness.edge.counts.faults == 0
        assert harness.respondent.counts.failed == 0
        assert harness.respondent.counts.answered > DAMAGED // 100


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(mutated(), min_size=1, max_size=8))
async def test_damaged_message_gets_one_answer(payloads: list[bytes], vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        connections = [dispatch(harness, payload) for payload in payloads]
        await harness.respondent.drain()
        for connection, payload in zip(connections, payloads, strict=True):
            assert connection.open == 0
            assert len(connection.answers) == is_answered(payload)
            for answer in connection.answers:
                read = decode_independently(ISO87_ASCII.encode(answer))
                assert read["39"]
                assert not ISO87_ASCII.messages.is_request(read["t"])
        assert harness.edge.counts.faults == 0


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutated())
def test_decoded_message_survives_a_round_trip(payload: bytes) -> None:
    try:
        message = ISO87_ASCII.decode(payload)
    except DecodeError:
        return
    assert ISO87_ASCII.decode(ISO87_ASCII.encode(message)) == message


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(mutated(), max_size=5), st.data())
def test_any_split_of_the_stream_gives_the_same_frames(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(ISO87_ASCII.framing.frame(payload) for payload in payloads if payload)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    cutter = FrameCutter()
    parts = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    received = [each for part in parts for each in cutter.feed(part)]
    assert received == FrameCutter().feed(stream)
    assert received == [payload for payload in payloads if payload]


def test_corpus_has_all_functions() -> None:
    functions = {ISO87_ASCII.function(payload[:4].decode()) for payload in CORPUS}
    assert functions == FUNCTIONS
    assert all(ISO87_ASCII.decode(payload) for payload in CORPUS)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 19, 20, 4_096])
def test_decode_of_noise_raises_only_decode_error(length: int) -> None:
    noise = random.Random(length)
    for _ in range(200):
        try:
            ISO87_ASCII.decode(noise.randbytes(length))
        except DecodeError:
            continue
