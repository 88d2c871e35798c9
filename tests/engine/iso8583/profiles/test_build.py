"""The value of a profile has the codec, the framing and the fields that its description gives."""

from __future__ import annotations

import pytest

from engine.iso8583.card_data import Verification
from engine.iso8583.codec import Encodings
from engine.iso8583.framing import Framing
from engine.iso8583.message import Message
from engine.iso8583.mixed_codec import MixedCodec
from engine.iso8583.private_data import Place
from engine.iso8583.profiles.build import DescriptionError, build
from engine.iso8583.profiles.description import CardDataPolicy, Codes, Description, Element, Frame, Header
from engine.iso8583.text_codec import TextCodec
from engine.pan import Masked


def built(**sections: object) -> Description:
    return Description(name="own", **sections)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("description", "codec"),
    [
        (built(), TextCodec),
        (built(elements={"60": Element("n3")}), TextCodec),
        (built(encodings=Encodings(bitmap="raw")), MixedCodec),
        (built(elements={"4": Element(encoding="bcd-right")}), MixedCodec),
        (built(elements={"48": Element(length="binary")}), MixedCodec),
    ],
)
def test_codec_of_text_is_used_if_everything_is_ascii(description: Description, codec: type) -> None:
    assert type(build(description).codec) is codec


def test_element_of_a_profile_replaces_that_of_the_version() -> None:
    profile = build(built(elements={"60": Element("n3"), "61": Element("absent")}))
    assert profile.encode(Message("0800", {60: "123"})) == b"0800" + b"0000000000000010" + b"123"
    with pytest.raises(ValueError, match="DE61"):
        profile.encode(Message("0800", {61: "1"}))


def test_fields_of_secrets_are_masked() -> None:
    place = Place(60, at=0, length=3)
    profile = build(built(private={"cvv2": place}, elements={"61": Element(secret=True)}))
    decoded = profile.decode(profile.encode(Message("0100", {60: "737", 61: "x", 62: "y"})))
    assert [type(decoded.fields[number]) for number in (60, 61, 62)] == [Masked, Masked, str]


def test_secret_of_the_version_stays_secret() -> None:
    profile = build(built(elements={"52": Element(secret=False), "35": Element("z..40", secret=False)}))
    decoded = profile.decode(profile.encode(Message("0100", {35: "41=29", 52: "0" * 16})))
    assert {type(value) for value in decoded.fields.values()} == {Masked}


def test_length_in_a_header() -> None:
    description = built(
        frame=Frame("in-header", 2, 2, counts_header=False), header=Header("0102000003040506", ((0, 4, 1),))
    )
    assert build(description).framing == Framing("in-header", 8, 2, 2, False)


def test_messages_of_both_families() -> None:
    mtis = {
        "authorization": ("0100", "0200"),
        "advice": ("0120",),
        "presentment": ("0220",),
        "reversal": ("0400",),
        "network_management": ("0800",),
    }
    assert build(built(messages=mtis)).function("0201") == "authorization"
    assert build(built(messages=mtis)).function("0420") is None


def test_mti_with_two_functions_is_refused() -> None:
    mtis = dict.fromkeys(
        ("authorization", "advice", "presentment", "reversal", "network_management"), ("0100",)
    )
    with pytest.raises(DescriptionError, match="two functions"):
        build(built(messages=mtis))


def test_identity_and_echo() -> None:
    profile = build(built(identity=(41, 32, 11, 7), echo=(70, 37, 32, 11, 7, 2)))
    assert (profile.identity.has_rrn, profile.identity.further) == (False, (41,))
    assert profile.echoed == (2, 7, 11, 32, 37, 70)


def test_response_code_of_another_size_is_refused() -> None:
    with pytest.raises(DescriptionError, match="does not fit"):
        build(built(response_codes=Codes(reasons={"card_lost": "041"})))


@pytest.mark.parametrize(
    ("description", "size"),
    [
        (built(), 16),
        (built(encodings=Encodings(bytes="raw")), 8),
        (built(elements={"128": Element("absent")}), 0),
    ],
)
def test_size_of_a_mac_is_that_of_its_encoding(description: Description, size: int) -> None:
    assert build(description).mac_bytes == size


def test_treatment_of_card_data_is_that_of_the_description() -> None:
    policy = CardDataPolicy(pin="ignore", expiry="required")
    profile = build(Description(name="x", verification=policy))
    assert profile.verification == Verification(pin="ignore", expiry="required")
    assert build(Description(name="x")).verification == Verification()
