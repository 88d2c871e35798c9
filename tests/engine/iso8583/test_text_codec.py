"""The codec gives the same results as pyiso8583 for valid and damaged messages. Its errors contain no
values."""

from __future__ import annotations

import iso8583
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iso8583.specs import default_ascii

from engine.iso8583.codec import DecodeError, EncodeError, text_size
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.tables import ELEMENTS_1987
from engine.pan import Masked, Pan
from tests.support.engine.iso8583.messages import EXAMPLE, documents


def oracle_encode(document: dict[str, str]) -> bytes:
    encoded, _ = iso8583.encode(dict(document), default_ascii)
    return bytes(encoded)


def oracle_decode(payload: bytes) -> Message:
    document, _ = iso8583.decode(payload, default_ascii)
    return Message(document["t"], {int(key): value for key, value in document.items() if key not in "tp1h"})


def as_message(document: dict[str, str]) -> Message:
    return Message(document["t"], {int(key): value for key, value in document.items() if key != "t"})


@given(documents())
def test_encode_equals_pyiso8583(document: dict[str, str]) -> None:
    assert ISO87_ASCII.encode(as_message(document)) == oracle_encode(document)


@given(documents(), st.booleans())
def test_decode_equals_pyiso8583(document: dict[str, str], lower: bool) -> None:
    payload = oracle_encode(document)
    if lower:
        header = 4 + (32 if payload[4:5] in b"89ABCDEF" else 16)
        payload = payload[:header].lower() + payload[header:]
    decoded = ISO87_ASCII.decode(payload)
    assert decoded == oracle_decode(payload) == as_message(document)
    assert list(decoded.fields) == sorted(decoded.fields)


@given(documents(), st.data())
def test_decode_refuses_what_pyiso8583_refuses(document: dict[str, str], data: st.DataObject) -> None:
    payload = bytearray(oracle_encode(document))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not payload:
            break
    try:
        decoded = ISO87_ASCII.decode(bytes(payload))
    except DecodeError:
        return
    assert decoded == oracle_decode(bytes(payload))


@given(st.binary(max_size=200))
def test_decode_of_any_bytes_returns_a_message_or_raises_decode_error(payload: bytes) -> None:
    problem: DecodeError | None = None
    try:
        ISO87_ASCII.decode(payload)
    except DecodeError as error:
        problem = error
    assert problem is None or 0 <= problem.position <= len(payload)


def test_secrets_are_masked_by_their_type() -> None:
    message = ISO87_ASCII.decode(oracle_encode(EXAMPLE | {"35": "4111111111111111=2911", "48": "01003123"}))
    assert type(message.fields[2]) is Pan
    assert all(type(message.fields[number]) is Masked for number in (14, 35, 48))
    assert "4111" not in f"{message!r} {message} {message.fields}"
    assert "0100" in repr(message)


# Each row: payload, field, position and problem.
BROKEN = [
    (b"", "MTI", 0, "four digits"),
    (b"010", "MTI", 0, "four digits"),
    (b"01x0" + b"0" * 16, "MTI", 0, "four digits"),
    (b"\xb2100" + b"0" * 16, "MTI", 0, "four digits"),
    (b"0100", "bitmap", 4, "cut short"),
    (b"0100" + b"0" * 15, "bitmap", 4, "cut short"),
    (b"0100" + b"8" + b"0" * 30, "bitmap", 4, "cut short"),
    (b"0100" + b"0" * 15 + b"G", "bitmap", 4, "hexadecimal"),
    (b"0100" + b"0x" + b"0" * 14, "bitmap", 4, "hexadecimal"),
    (b"0100" + b"8" + b"0" * 15 + b"8" + b"0" * 15, "bitmap", 4, "DE65"),
    (b"0100" + b"4" + b"0" * 15, "DE2", 20, "no length"),
    (b"0100" + b"4" + b"0" * 15 + b"1", "DE2", 20, "no length"),
    (b"0100" + b"4" + b"0" * 15 + b"x6", "DE2", 20, "no length"),
    (b"0100" + b"4" + b"0" * 15 + b"+6", "DE2", 20, "no length"),
    (b"0100" + b"4" + b"0" * 15 + b"20" + b"4" * 20, "DE2", 20, "up to 19"),
    (b"0100" + b"4" + b"0" * 15 + b"16411111", "DE2", 22, "cut short"),
    (b"0100" + b"2" + b"0" * 15 + b"00000", "DE3", 20, "cut short"),
    (b"0100" + b"2" + b"0" * 15 + b"0000001", "end", 26, "more data"),
    (b"0100" + b"2" + b"0" * 15 + b"000\xe9000", "DE3", 23, "printable"),
    (b"0100" + b"2" + b"0" * 15 + b"00000\x00", "DE3", 25, "printable"),
    (b"0100" + b"2" + b"0" * 15 + b"000000\x00", "end", 26, "printable"),
    (b"0100\x002" + b"0" * 15, "bitmap", 4, "printable"),
]


@pytest.mark.parametrize(("payload", "field", "position", "problem"), BROKEN)
def test_errors_name_field_and_position(payload: bytes, field: str, position: int, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem) as failed:
        ISO87_ASCII.decode(payload)
    assert (failed.value.field, failed.value.position) == (field, position)
    assert "4111" not in str(failed.value)


def test_decode_error_keeps_the_fields_before_it() -> None:
    payload = oracle_encode(EXAMPLE).replace(b"Corner shop", b"Corner sh\xc3\xb6")
    with pytest.raises(DecodeError) as failed:
        ISO87_ASCII.decode(payload)
    assert failed.value.field == "DE43"
    assert failed.value.read is not None
    assert failed.value.read.mti == "0100"
    assert list(failed.value.read.fields) == [number for number in map(int, list(EXAMPLE)[1:]) if number < 43]


def test_decode_error_without_mti_has_no_fields() -> None:
    with pytest.raises(DecodeError) as failed:
        ISO87_ASCII.decode(b"GET / HTTP/1.1")
    assert failed.value.read is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("0100", {1: "0"}), "DE1"),
        (Message("0100", {65: "0" * 16}), "DE65"),
        (Message("0100", {129: "0"}), "DE129"),
        (Message("0100", {4: "1"}), "DE4"),
        (Message("0100", {4: "0" * 13}), "DE4"),
        (Message("0100", {48: "x" * 1000}), "DE48"),
        (Message("0100", {43: "Caf\u00e9".ljust(40)}), "DE43"),
        (Message("0100", {43: "Caf\n".ljust(40)}), "DE43"),
        (Message("010", {}), "MTI"),
        (Message("\u0660100", {}), "MTI"),
    ],
)
def test_encode_refuses_a_message_outside_the_profile(message: Message, field: str) -> None:
    with pytest.raises(EncodeError) as failed:
        ISO87_ASCII.encode(message)
    assert failed.value.field == field
    assert "Caf" not in str(failed.value)


def test_field_table_equals_pyiso8583() -> None:
    assert sorted(ELEMENTS_1987) == [number for number in range(2, 129) if number != 65]
    for number, element in ELEMENTS_1987.items():
        entry = default_ascii[str(number)]
        assert (element.prefix_digits, text_size(element)) == (entry["len_type"], entry["max_len"])
