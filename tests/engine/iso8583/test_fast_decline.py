"""``fast_decline`` returns the same bytes as decoding and refusing, or ``None``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.codec import DecodeError
from engine.iso8583.fast_decline import authorization_prefixes, fast_decline
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII, SHIPPED, parse_profile
from engine.iso8583.respond import DEADLINE_EXCEEDED, refusal
from tests.support.engine.iso8583.messages import documents, message

FAST_DECLINE = fast_decline(ISO87_ASCII)
WITH_HEADER = parse_profile('name = "own"\nheader = { value = "6000010002" }\n', "own.toml")


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


@pytest.mark.parametrize("profile", [*SHIPPED.values(), WITH_HEADER], ids=lambda profile: profile.name)
def test_fast_decline_of_each_profile_equals_decoded_refusal(profile: Profile) -> None:
    decline = fast_decline(profile)
    for mti in ("0100", "0101", "0400"):
        payload = profile.encode(profile.own_request(message({33: "1"}, mti=mti, t04="42"), 0))
        refused = decline(payload, DEADLINE_EXCEEDED)
        prefixed = payload.startswith(authorization_prefixes(profile), profile.header_bytes)
        assert (refused is not None) == prefixed == (mti == "0100")
        if refused is not None:
            assert refused == profile.encode(refusal(profile.decode(payload), DEADLINE_EXCEEDED, profile))
    assert decline(profile.encode(Message("0100", {}))[:-1], DEADLINE_EXCEEDED) is None
