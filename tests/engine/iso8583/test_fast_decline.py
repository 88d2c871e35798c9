"""``fast_decline`` returns the same bytes as decoding and refusing, or ``None``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.codec import DecodeError
from engine.iso8583.fast_decline import fast_decline
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import DEADLINE_EXCEEDED, refusal
from tests.support.engine.iso8583.messages import documents, message

FAST_DECLINE = fast_decline(ISO87_ASCII)


def decoded(payload: bytes) -> bytes | None:
    """The refusal of an original authorization by decoding it."""
    try:
        request = ISO87_ASCII.decode(payload)
    except DecodeError:
        return None
    return ISO87_ASCII.encode(refusal(request, DEADLINE_EXCEEDED)) if request.mti == "0100" else None


@pytest.mark.parametrize(
    "original",
    [
        message(),
        message(t01="737", t04="000000000000042"),
        message({7: None, 37: None, 43: None}),
        message({33: "1", 39: "00", 70: "001"}),
        message(mti="0101"),
        message(mti="0400"),
    ],
)
def test_fast_decline_equals_decoded_refusal(original: Message) -> None:
    payload = ISO87_ASCII.encode(original)
    refused = FAST_DECLINE(payload, DEADLINE_EXCEEDED)
    assert refused == decoded(payload)
    assert (refused is not None) == payload.startswith(b"0100")


@given(documents(), st.booleans(), st.data())
def test_fast_decline_of_any_message_equals_decoded_refusal_or_none(
    document: dict[str, str], broken: bool, data: st.DataObject
) -> None:
    fields = {int(number): value for number, value in document.items() if number != "t"}
    payload = bytearray(ISO87_ASCII.encode(message(dict.fromkeys(range(2, 129)) | fields)))
    for _ in range(data.draw(st.integers(1, 4)) if broken else 0):
        place = data.draw(st.integers(0, len(payload)))
        payload[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    assert FAST_DECLINE(bytes(payload), DEADLINE_EXCEEDED) == decoded(bytes(payload))
