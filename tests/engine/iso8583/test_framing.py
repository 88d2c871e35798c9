"""Frames are complete for any split of the bytes, and a bad length does not break the stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.framing import BadFrame, FrameCutter, FrameSizeError, Framing
from engine.iso8583.profiles import ISO87_ASCII
from engine.limits import FRAME_BYTES_MAX

payloads = st.lists(st.binary(min_size=1, max_size=300), max_size=8)


@given(payloads, st.data())
def test_any_split_gives_the_same_frames(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(ISO87_ASCII.framing.frame(payload) for payload in sent)
    cutter = FrameCutter()
    received: list[bytes | BadFrame] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += cutter.feed(stream[:size])
        stream = stream[size:]
    assert received == sent
    assert not cutter.partial


def test_one_byte_at_a_time() -> None:
    cutter = FrameCutter()
    stream = ISO87_ASCII.framing.frame(b"x" * FRAME_BYTES_MAX) + ISO87_ASCII.framing.frame(b"y")
    frames = [cut for byte in stream for cut in cutter.feed(bytes([byte]))]
    assert frames == [b"x" * FRAME_BYTES_MAX, b"y"]


def test_frame_is_partial_from_its_first_byte() -> None:
    cutter = FrameCutter()
    seen = [(cutter.feed(received), cutter.partial) for received in (b"", b"\x00", b"\x02a", b"b")]
    assert seen == [([], False), ([], True), ([], True), ([b"ab"], False)]


def test_empty_frame_is_bad() -> None:
    assert FrameCutter().feed(b"\x00\x00" + ISO87_ASCII.framing.frame(b"ok")) == [BadFrame(0, b""), b"ok"]


@pytest.mark.parametrize("step", [1, 7, 4096, 100_000])
def test_oversized_frame_is_skipped_to_its_end(step: int) -> None:
    announced = FRAME_BYTES_MAX + 904
    body = bytes(index % 251 for index in range(announced))
    stream = announced.to_bytes(2, "big") + body + ISO87_ASCII.framing.frame(b"next")
    cutter = FrameCutter()
    frames = []
    for at in range(0, len(stream), step):
        frames += cutter.feed(stream[at : at + step])
    assert frames == [BadFrame(announced, body[:FRAME_BYTES_MAX]), b"next"]
    assert not cutter.partial


def test_oversized_frame_in_progress_is_partial() -> None:
    cutter = FrameCutter()
    cutter.feed(b"\xff\xff" + b"x" * 60_000)
    assert cutter.partial


def test_repr_of_a_bad_frame_hides_its_content() -> None:
    assert "4111" not in repr(BadFrame(5000, b"4111111111111111"))


@pytest.mark.parametrize("size", [0, FRAME_BYTES_MAX + 1])
def test_payload_of_invalid_size_is_not_framed(size: int) -> None:
    with pytest.raises(FrameSizeError):
        ISO87_ASCII.framing.frame(b"x" * size)


# Each row: framing, payload and its frame.
KINDS = [
    (Framing("binary-4"), b"abc", b"\x00\x00\x00\x03abc"),
    (Framing("ascii-4"), b"abc", b"0003abc"),
    (Framing("in-header", 4, 2, 2), b"HH\x00\x00body", b"HH\x00\x08body"),
    (Framing("in-header", 4, 2, 2, False), b"HH\x00\x00body", b"HH\x00\x04body"),
]


@pytest.mark.parametrize(("framing", "payload", "framed"), KINDS)
def test_each_kind_of_length_is_written_and_read(framing: Framing, payload: bytes, framed: bytes) -> None:
    assert framing.frame(payload) == framed
    received = framed[framing.before_payload :]
    for step in (1, 3, 100):
        cutter = FrameCutter(framing)
        stream = framed * 3
        frames = [each for at in range(0, len(stream), step) for each in cutter.feed(stream[at : at + step])]
        assert frames == [received] * 3
        assert not cutter.partial


@pytest.mark.parametrize(
    ("framing", "stream"),
    [
        (Framing("ascii-4"), b"GET / HTTP/1.1"),
        (Framing("ascii-4"), b"-001x"),
        (Framing("in-header", 4, 2, 2), b"HH\x00\x03body"),
    ],
)
def test_length_that_is_no_number_breaks_the_stream(framing: Framing, stream: bytes) -> None:
    cutter = FrameCutter(framing)
    assert cutter.feed(stream) == [BadFrame(0, b"", broken=True)]
    assert cutter.feed(framing.frame(b"HHHHbody")) == []
    assert not cutter.partial


@pytest.mark.parametrize("framing", [Framing("binary-4"), Framing("ascii-4")])
def test_oversized_frame_of_each_kind_is_skipped(framing: Framing) -> None:
    announced = FRAME_BYTES_MAX + 5
    prefix = b"%04d" % announced if framing.kind == "ascii-4" else announced.to_bytes(4, "big")
    stream = prefix + b"x" * announced + framing.frame(b"next")
    assert FrameCutter(framing).feed(stream) == [BadFrame(announced, b"x" * FRAME_BYTES_MAX), b"next"]


@pytest.mark.parametrize(
    ("framing", "payload"),
    [(Framing("in-header", 8, 2, 2), b"short"), (Framing("in-header", 4, 2, 1), b"x" * 300)],
)
def test_payload_that_does_not_fit_its_header_is_not_framed(framing: Framing, payload: bytes) -> None:
    with pytest.raises(FrameSizeError):
        framing.frame(payload)
