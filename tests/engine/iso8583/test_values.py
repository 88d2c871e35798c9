"""Values are written and read in their encoding; other values are refused."""

from __future__ import annotations

import pytest

from engine.iso8583.formats import Encoding
from engine.iso8583.values import value_codec

# Each row: encoding, whether it is a track, value and bytes.
VALUES: list[tuple[Encoding, bool, str, bytes]] = [
    ("ascii", False, "Corner 7", b"Corner 7"),
    ("cp037", False, "A1 =~", b"\xc1\xf1\x40\x7e\xa1"),
    ("cp1148", False, "A1[]", b"\xc1\xf1\x4a\x5a"),
    ("bcd-right", False, "1234", b"\x12\x34"),
    ("bcd-right", False, "123", b"\x01\x23"),
    ("bcd-left", False, "123", b"\x12\x30"),
    ("bcd-right", False, "", b""),
    ("bcd-right", True, "41D29", b"\x04\x1d\x29"),
    ("raw", False, "00FF", b"\x00\xff"),
    ("hex", False, "00FF", b"00FF"),
]


@pytest.mark.parametrize(("encoding", "track", "value", "data"), VALUES)
def test_value_is_written_and_read(encoding: Encoding, track: bool, value: str, data: bytes) -> None:
    codec = value_codec(encoding, track=track)
    assert codec.write(value) == data
    assert codec.read(data, len(value)) == value
    assert codec.bytes_of(len(value)) == len(data)


def test_hexadecimal_digits_have_the_text_encoding() -> None:
    assert value_codec("hex", text="cp037").write("0F") == b"\xf0\xc6"


def test_packed_track_has_d_for_the_separator() -> None:
    assert value_codec("bcd-right", track=True).write("41=29") == b"\x04\x1d\x29"


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("ascii", "Caf\u00e9"),
        ("cp037", "a\n"),
        ("bcd-right", "12A4"),
        ("bcd-right", "\u0661\u0662"),
        ("raw", "0"),
        ("raw", "0G"),
        ("hex", "0G"),
    ],
)
def test_unsuitable_value_is_not_written(encoding: Encoding, value: str) -> None:
    with pytest.raises(ValueError, match=r"is not|holds"):
        value_codec(encoding).write(value)


@pytest.mark.parametrize(
    ("encoding", "data", "units"),
    [
        ("ascii", b"\x00", 1),
        ("ascii", b"\xe9", 1),
        ("cp037", b"\x00", 1),
        ("cp037", b"\x51", 1),
        ("bcd-right", b"\x1a", 2),
        ("bcd-right", b"\x12", 1),
        ("bcd-left", b"\x12", 1),
    ],
)
def test_unsuitable_bytes_are_not_read(encoding: Encoding, data: bytes, units: int) -> None:
    with pytest.raises(ValueError, match=r"is not|holds"):
        value_codec(encoding).read(data, units)


def test_filler_pads_digits_to_the_right() -> None:
    assert value_codec("bcd-left").read(b"\x12\x3f", 3) == "123"
