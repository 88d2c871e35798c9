"""A profile translates requests and answers between its own form and the canonical one."""

from __future__ import annotations

import pytest

from engine.iso8583.acquirer import References, Sale, authorization_request, quoted_authorization_id
from engine.iso8583.elements import ElementError
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII, ISO93_ASCII, SHIPPED, parse_profile
from engine.iso8583.respond import answered, malformed, network_management, refusal
from engine.replies import WireAnswer

AT_MS = 1_795_253_400_000
SALE = Sale(
    pan="4111111111111111",
    amount_minor=12_34,
    currency="EUR",
    mcc="5411",
    merchant_name="Corner shop",
    merchant_country="IE",
    channel="pos",
    cvv2="737",
)
REQUEST = authorization_request(SALE, References("424242", "000123", AT_MS, "SN1"))
AUTHORIZATION = "01900000-0000-7000-8000-000000000007"

MAPPED = parse_profile(
    """
name = "mapped"
identity = [7, 11, 32, 37, 41]
[header]
value = "6000010002"
swaps = [[1, 3, 2]]
[messages]
authorization = ["0200"]
advice = ["0120"]
presentment = ["0220"]
reversal = ["0420"]
network_management = ["0800"]
[private]
cvv2 = { field = 60, at = 4, length = 4 }
network_transaction_id = { field = 62 }
authorization_id = { field = 63 }
[response_codes.codes]
"51" = "A1"
[response_codes.reasons]
cvv2_mismatch = "82"
""",
    "mapped.toml",
)
PROFILES = [*SHIPPED.values(), MAPPED]


def on_the_wire(profile: Profile, message: Message) -> Message:
    return profile.decode(profile.encode(message))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_request_and_answer_keep_their_meaning(profile: Profile) -> None:
    request = on_the_wire(profile, profile.own_request(REQUEST, AT_MS))
    canonical, tags = profile.to_canonical(request)
    assert canonical.mti == "0100"
    assert {number: canonical.fields[number] for number in (2, 3, 4, 7, 11, 18, 32, 37, 43, 49)} == {
        number: REQUEST.fields[number] for number in (2, 3, 4, 7, 11, 18, 32, 37, 43, 49)
    }
    assert dict(tags) == {"01": "737", "04": "SN1"}
    approved = answered(request, WireAnswer("10", AUTHORIZATION, "ABC123", 5_00), profile)
    read = profile.read_answer(on_the_wire(profile, approved))
    assert (read.mti, read.fields[39], read.fields[38]) == ("0110", "10", "ABC123")
    assert (read.fields[4], read.fields[54][8:]) == ("000000000500", "000000001234")
    assert quoted_authorization_id(read) == AUTHORIZATION


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_repeat_of_a_request_is_a_repeat(profile: Profile) -> None:
    original, repeat = (profile.own_request(each, AT_MS) for each in (REQUEST, as_repeat(REQUEST)))
    assert not profile.messages.is_repeat(original.mti)
    assert profile.messages.is_repeat(repeat.mti)
    assert profile.fingerprint(original, b"k" * 16) == profile.fingerprint(repeat, b"k" * 16)
    code = profile.codes.own("51", "authorization")
    assert refusal(original, "51", profile) == refusal(repeat, "51", profile)
    assert refusal(original, "51", profile).fields[39] == code


def test_canonical_profile_translates_nothing() -> None:
    assert ISO87_ASCII.own_request(REQUEST, AT_MS) is REQUEST
    assert ISO87_ASCII.read_answer(REQUEST) is REQUEST
    assert ISO87_ASCII.to_canonical(REQUEST)[0] is REQUEST


def test_reason_of_a_decline_has_its_own_code() -> None:
    request = MAPPED.own_request(REQUEST, AT_MS)
    declined = answered(request, WireAnswer("N7", AUTHORIZATION, reason="cvv2_mismatch"), MAPPED)
    assert (declined.mti, declined.fields[39]) == ("0210", "82")
    assert MAPPED.read_answer(declined).fields[39] == "N7"


def test_header_of_an_answer_has_exchanged_ids() -> None:
    request = Message("0200", MAPPED.own_request(REQUEST, AT_MS).fields, bytes.fromhex("60aaaabbbb"))
    assert MAPPED.encode(refusal(request, "51", MAPPED))[:5] == bytes.fromhex("60bbbbaaaa")


def test_further_identity_field_is_mandatory() -> None:
    request = MAPPED.own_request(REQUEST, AT_MS)
    canonical, _ = MAPPED.to_canonical(request)
    assert MAPPED.identity.wire_identity(canonical).further == REQUEST.fields[41]


def test_undecodable_request_is_answered_by_its_references() -> None:
    request = ISO93_ASCII.own_request(REQUEST, AT_MS)
    response = malformed(Message(request.mti, dict(list(request.fields.items())[:12])), ISO93_ASCII)
    assert response is not None
    assert (response.mti, response.fields[39]) == ("1110", "904")
    assert not {2, 4} & set(response.fields)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_network_management_is_accepted(profile: Profile) -> None:
    canonical = Message("0800", {7: "1121103000", 11: "000123", 70: "301"})
    request = on_the_wire(profile, profile.own_request(canonical, AT_MS))
    answer = profile.read_answer(on_the_wire(profile, network_management(request, profile=profile)))
    assert (answer.mti, answer.fields[39], answer.fields[70], answer.fields[11]) == (
        "0810",
        "00",
        "301",
        "000123",
    )


def test_advice_has_the_codes_of_the_profile() -> None:
    profile = parse_profile('name = "own"\n[response_codes.codes]\n"00" = "Z0"\n', "own.toml")
    advice = profile.own_request(Message("0120", {**REQUEST.fields, 39: "00"}), AT_MS)
    assert advice.fields[39] == "Z0"
    assert profile.to_canonical(advice)[0].fields[39] == "00"


def test_increment_is_not_requested_where_networks_advise_it() -> None:
    profile = parse_profile('name = "own"\nincrements = "advice"\n', "own.toml")
    increment = Message("0100", {**REQUEST.fields, 48: "06003INC"})
    with pytest.raises(ElementError, match="advises"):
        profile.own_request(increment, AT_MS)
    assert profile.own_request(REQUEST, AT_MS).fields[2] == REQUEST.fields[2]
