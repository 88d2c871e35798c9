"""Frames are complete for any split of the bytes, and a bad length does not break the stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.framing import BadFrame, FrameCutter, FrameSizeError
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
