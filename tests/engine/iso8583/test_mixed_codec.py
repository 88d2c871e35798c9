"""The codec of mixed encodings writes the bytes of each shipped dialect, and reads nothing else.

``tests/conformance/test_codecs.py`` compares it with other implementations.
"""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.codec import Bytes, DecodeError, Digits, EncodeError, Encodings, Text
from engine.iso8583.formats import LengthEncoding, read_format
from engine.iso8583.message import Message
from engine.iso8583.mixed_codec import MixedCodec
from engine.iso8583.profiles import ISO87_BINARY, ISO87_EBCDIC
from engine.iso8583.tables import ELEMENTS_1987
from engine.pan import Masked, Pan
from tests.support.engine.iso8583.messages import FIELDS

ECHO = Message("0800", {7: "1121103000", 11: "000123", 70: "301"})
BINARY_ECHO = bytes.fromhex("0800 8220000000000000 0400000000000000 1121103000 000123 0301")
EBCDIC_ECHO = bytes.fromhex(
    "f0f8f0f0 8220000000000000 0400000000000000 f1f1f2f1f1f0f3f0f0f0 f0f0f0f1f2f3 f3f0f1"
)


def test_binary_message() -> None:
    assert ISO87_BINARY.encode(ECHO) == BINARY_ECHO
    assert ISO87_BINARY.decode(BINARY_ECHO) == ECHO


def test_ebcdic_message() -> None:
    assert ISO87_EBCDIC.encode(ECHO) == EBCDIC_ECHO
    assert ISO87_EBCDIC.decode(EBCDIC_ECHO) == ECHO


def test_fields_are_ascending_and_masked_by_their_type() -> None:
    message = ISO87_BINARY.decode(ISO87_BINARY.encode(Message("0100", {52: "0011223344556677", **FIELDS})))
    assert list(message.fields) == sorted(message.fields)
    assert type(message.fields[2]) is Pan
    assert type(message.fields[52]) is Masked


@pytest.mark.parametrize(
    ("encodings", "encoded"),
    [
        (Encodings(digits="bcd-left", lengths="binary", bitmap="raw"), "0800 4000000000000000 03 4120"),
        (Encodings(digits="bcd-right", lengths="bcd", bitmap="raw"), "0800 4000000000000000 03 0412"),
        (
            Encodings(digits="bcd-right", lengths="bcd", counts="bytes", bitmap="raw"),
            "0800 4000000000000000 02 0412",
        ),
        (
            Encodings(text="cp037", lengths="binary", bitmap="hex"),
            "f0f8f0f0 f4f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0 03 f4f1f2",
        ),
    ],
)
def test_combinations_of_encodings(encodings: Encodings, encoded: str) -> None:
    codec = MixedCodec(ELEMENTS_1987, encodings)
    assert codec.encode(Message("0800", {2: "412"})) == bytes.fromhex(encoded)


@pytest.mark.parametrize(
    "encodings",
    [
        Encodings(text=text, digits=digits, bytes=raw, lengths=lengths, bitmap=bitmap)
        for text in get_args(Text)
        for digits in get_args(Digits)
        for raw in get_args(Bytes)
        for lengths in get_args(LengthEncoding)
        for bitmap in get_args(Bytes)
    ],
    ids=lambda each: "-".join(map(str, (each.text, each.digits, each.bytes, each.lengths, each.bitmap))),
)
def test_every_combination_of_encodings_reads_its_own_bytes(encodings: Encodings) -> None:
    codec = MixedCodec(ELEMENTS_1987, encodings)
    message = Message("0100", {**FIELDS, 35: "411D2911", 52: "00112233445566FF", 55: "9F0206", 70: "301"})
    assert codec.decode(codec.encode(message)) == message


def test_third_bitmap_announces_fields_to_192() -> None:
    table = {**ELEMENTS_1987, 130: read_format(130, "n2", "Own")}
    codec = MixedCodec(table, Encodings(digits="bcd-right", bitmap="raw", bitmaps=3))
    message = Message("0800", {11: "000123", 130: "42"})
    encoded = bytes.fromhex("0800 8020000000000000 8000000000000000 4000000000000000 000123 42")
    assert codec.encode(message) == encoded
    assert codec.decode(encoded) == message


# Each row: payload in hexadecimal, field, position and problem.
BROKEN = [
    ("", "MTI", 0, "four digits"),
    ("01", "MTI", 0, "four digits"),
    ("0a00 0000000000000000", "MTI", 0, "four digits"),
    ("0100 000000", "bitmap", 2, "cut short"),
    ("0100 8000000000000000 00", "bitmap", 2, "cut short"),
    ("0100 8000000000000000 8000000000000000", "bitmap", 2, "DE129"),
    ("0100 4000000000000000", "DE2", 10, "no length"),
    ("0100 4000000000000000 1a", "DE2", 10, "no length"),
    ("0100 4000000000000000 20", "DE2", 10, "up to 19"),
    ("0100 4000000000000000 16 41", "DE2", 11, "cut short"),
    ("0100 4000000000000000 03 1412", "DE2", 11, "padded"),
    ("0100 2000000000000000 00000a", "DE3", 10, "packed digits"),
    ("0100 0000000000000000 00", "end", 10, "more data"),
    ("0100 0000000008000000 4100000000000000000000ff", "DE37", 10, "printable"),
]


@pytest.mark.parametrize(("payload", "field", "position", "problem"), BROKEN)
def test_errors_name_field_and_position(payload: str, field: str, position: int, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem) as failed:
        ISO87_BINARY.decode(bytes.fromhex(payload))
    assert (failed.value.field, failed.value.position) == (field, position)
    assert (failed.value.read is None) == (field == "MTI")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("010", {}), "MTI"),
        (Message("0100", {65: "0" * 16}), "DE65"),
        (Message("0100", {129: "0"}), "DE129"),
        (Message("0100", {4: "1"}), "DE4"),
        (Message("0100", {4: "12345678901x"}), "DE4"),
        (Message("0100", {43: "Caf\u00e9".ljust(40)}), "DE43"),
        (Message("0100", {48: "x" * 1000}), "DE48"),
        (Message("0100", {52: "0" * 15}), "DE52"),
        (Message("0100", {55: "0"}), "DE55"),
    ],
)
def test_encode_refuses_a_message_outside_the_profile(message: Message, field: str) -> None:
    with pytest.raises(EncodeError) as failed:
        ISO87_BINARY.encode(message)
    assert failed.value.field == field
    assert "Caf" not in str(failed.value)


@given(st.binary(max_size=200))
def test_decode_of_any_bytes_returns_a_message_or_raises_decode_error(payload: bytes) -> None:
    for profile in (ISO87_BINARY, ISO87_EBCDIC):
        problem: DecodeError | None = None
        try:
            profile.decode(payload)
        except DecodeError as error:
            problem = error
        assert problem is None or 0 <= problem.position <= len(payload)
