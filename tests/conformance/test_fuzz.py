"""Bytes that nobody should send: honest messages with a few of them changed (guarantee 12).

Whatever arrives, the edge stays itself: what can be decoded is answered once, with something that an
independent decoder reads; what cannot is refused where a request can be recognised; nothing makes the edge
fail.
"""

from __future__ import annotations

import itertools
import os
import random
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.iso8583.codec import DecodeError, decode, encode
from engine.iso8583.content import FUNCTIONS
from engine.iso8583.framing import FrameCutter, frame
from engine.iso8583.message import Message, is_request
from engine.iso8583.respond import malformed
from tests.actors.network.support import Harness, running_edge
from tests.conformance.conversation import Author
from tests.conformance.peer import decode as decode_independently

EXAMPLES = 20_000 if "STANCHION_CHAOS" in os.environ else 80
START = datetime(2026, 11, 21, 10, tzinfo=UTC)
CORPUS = [
    delivery.payload
    for seed in range(20)
    for delivery in Author(random.Random(seed), START, 10, 2, slow=False).write()
]
INTERESTING = [b"\x00", b"\xff", b"\x80", b" ", b"0", b"9", b"F", b"f", b"\r\n", b"%s", b"0" * 20]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message of a real conversation, damaged in up to four places."""
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


class Listener:
    """The connection of one message, each from an address of its own: no limit of card testing applies."""

    def __init__(self) -> None:
        self.answers: list[Message] = []
        self.open = 0
        self.source = f"fuzz-{next(_numbers)}"

    def answer(self, response: Message) -> None:
        self.answers.append(response)

    def took_up(self) -> None:
        self.open += 1

    def settled(self) -> None:
        self.open -= 1

    def recognized(self) -> None: ...


def hear(harness: Harness, payload: bytes) -> Listener | None:
    """As a connection does with one frame."""
    listener = Listener()
    try:
        message = decode(payload)
    except DecodeError as error:
        response = malformed(error.read)
        if response is None:
            return None
        listener.answer(response)
        return listener
    if not is_request(message.mti):
        return None
    harness.edge.requested(listener, message)  # type: ignore[arg-type]
    return listener


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(mutated(), min_size=1, max_size=8))
async def test_damaged_messages(payloads: list[bytes], vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        listeners = [hear(harness, payload) for payload in payloads]
        await harness.respondent.drain()
        for listener in filter(None, listeners):
            (answer,) = listener.answers
            assert listener.open == 0
            read = decode_independently(encode(answer))
            assert read["39"]
            assert not is_request(read["t"])
        assert harness.edge.counts.faults == 0


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutated())
def test_what_decodes_encodes_to_the_same_again(payload: bytes) -> None:
    try:
        message = decode(payload)
    except DecodeError:
        return
    assert decode(encode(message)) == message


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(mutated(), max_size=5), st.data())
def test_frames_are_cut_the_same_however_they_arrive(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(payload) for payload in payloads if payload)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    cutter = FrameCutter()
    parts = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    received = [each for part in parts for each in cutter.feed(part)]
    assert received == FrameCutter().feed(stream)
    assert received == [payload for payload in payloads if payload]


def test_the_corpus_says_everything() -> None:
    functions = {payload[:3].decode() for payload in CORPUS}
    assert functions == FUNCTIONS
    assert all(decode(payload) for payload in CORPUS)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 19, 20, 4_096])
def test_noise(length: int) -> None:
    noise = random.Random(length)
    for _ in range(200):
        try:
            decode(noise.randbytes(length))
        except DecodeError:
            continue
