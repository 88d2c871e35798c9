"""Message headers are kept beside a message, and an answer exchanges their ids."""

from __future__ import annotations

import pytest

from engine.iso8583.codec import DecodeError, EncodeError
from engine.iso8583.header import HeaderCodec, MessageHeader
from engine.iso8583.message import Message
from engine.iso8583.tables import ELEMENTS_1987
from engine.iso8583.text_codec import TextCodec

TPDU = MessageHeader(bytes.fromhex("6000010002"), ((1, 3, 2),))
CODEC = HeaderCodec(TextCodec(ELEMENTS_1987), TPDU)
RECEIVED = bytes.fromhex("60aaaabbbb")
MESSAGE = Message("0800", {11: "000123"}, RECEIVED)


def test_header_precedes_the_message() -> None:
    payload = CODEC.encode(MESSAGE)
    assert payload == RECEIVED + b"0800" + b"0020000000000000" + b"000123"
    assert CODEC.decode(payload) == MESSAGE


def test_message_without_a_header_gets_that_of_this_side() -> None:
    assert CODEC.encode(Message("0800", {}))[:5] == TPDU.value


def test_answer_exchanges_the_ids() -> None:
    assert TPDU.answer(RECEIVED) == bytes.fromhex("60bbbbaaaa")
    assert TPDU.answer(b"\x60") == TPDU.value


def test_header_of_another_size_is_refused() -> None:
    with pytest.raises(EncodeError, match="5"):
        CODEC.encode(Message("0800", {}, b"\x60"))


def test_positions_of_errors_count_the_header() -> None:
    with pytest.raises(DecodeError) as failed:
        CODEC.decode(RECEIVED + b"0800" + b"0020000000000000" + b"00012")
    assert failed.value.position == 25
    assert failed.value.read is not None
    assert failed.value.read.header == RECEIVED
    with pytest.raises(DecodeError) as unreadable:
        CODEC.decode(b"\x60")
    assert unreadable.value.read is None
