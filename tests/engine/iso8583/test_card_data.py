"""Verification data: expiries are compared, PIN blocks and MACs are refused, chip data must be
well-formed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.iso8583.card_data import Verification, check_expiry
from engine.iso8583.content import AuthorizationRequest, read
from engine.iso8583.elements import ElementError
from engine.iso8583.respond import network_management
from tests.support.engine.iso8583.messages import ORIGINAL, message

PAN = "4111111111111111"
CHIP = "9F2608AABBCCDDEEFF00119F360200428407A0000000031010"
"""A cryptogram, a transaction counter and an application id."""


def content(fields: dict[int, str | None], **options: Any) -> AuthorizationRequest:
    found = read(message(fields), **options)
    assert isinstance(found, AuthorizationRequest)
    return found


@pytest.mark.parametrize(
    ("de14", "de35", "expiries"),
    [
        (None, None, []),
        ("2911", None, ["2911"]),
        (None, f"{PAN}=29112010000000000", ["2911"]),
        (None, f"{PAN}D29112010000000000F", ["2911"]),
        (None, f"{PAN}=29112011", ["2911"]),
        ("2912", f"{PAN}=29112010", ["2912", "2911"]),
        (None, f"{PAN}==2010000", []),
        (None, f"{PAN}=2911=0000", ["2911"]),
    ],
)
def test_expiries_come_from_de14_and_track_2(de14: str | None, de35: str | None, expiries: list[str]) -> None:
    found = content({14: de14, 35: de35}).expiries
    assert list(found) == expiries
    assert all(repr(each) == "Masked(****)" for each in found)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (14, "29x1"),
        (14, "    "),
        (35, "garbage"),
        (35, PAN),
        (35, f"{PAN}="),
        (35, f"{PAN}=2911"),
        (35, f"{PAN}=2911201x"),
        (35, "5555555555554444=29112010"),
        (52, "no pin block    "),
        (55, ""),
        (55, "9F2"),
        (55, "9F26"),
        (55, "9F2608AABB"),
        (55, "9F2681"),
        (55, "9F2680AA"),
        (55, "9F2683000001AA"),
        (55, "9F"),
        (55, "9F81818181"),
        (55, "garbage data"),
        (55, "70029F26"),
        (55, "7002" * 9 + "8400"),
    ],
)
def test_malformed_card_data_make_the_message_invalid(number: int, value: str) -> None:
    with pytest.raises(ElementError) as refused:
        content({number: value})
    assert refused.value.field == number
    assert not value.strip() or value not in str(refused.value)


@pytest.mark.parametrize(
    ("presented", "outcome"),
    [
        ((), "absent"),
        (("2911",), "match"),
        (("2911", "2911"), "match"),
        (("2912",), "mismatch"),
        (("2811",), "mismatch"),
        (("1911",), "mismatch"),
        (("1129",), "mismatch"),
        (("2911", "2912"), "mismatch"),
    ],
)
def test_expiry_matches_only_if_all_presented_ones_do(presented: tuple[str, ...], outcome: str) -> None:
    assert check_expiry(presented, 2029, 11) == outcome


@pytest.mark.parametrize(
    ("fields", "policy", "pin"),
    [
        ({}, Verification(), "absent"),
        ({52: "0123456789ABCDEF"}, Verification(), "refused"),
        ({52: "0123456789ABCDEF"}, Verification(pin="ignore"), "ignored"),
    ],
)
def test_pin_block_is_refused_or_ignored_by_the_profile(
    fields: dict[int, str | None], policy: Verification, pin: str
) -> None:
    assert content(fields, verification=policy).pin == pin


@pytest.mark.parametrize("number", [64, 128])
@pytest.mark.parametrize("mti", ["0100", "0101", "0120", "0220", "0400", "0420"])
def test_unverifiable_mac_makes_every_financial_message_invalid(mti: str, number: int) -> None:
    sealed = message({90: ORIGINAL, number: "0123456789ABCDEF"}, mti=mti)
    with pytest.raises(ElementError) as refused:
        read(sealed)
    assert refused.value.field == number
    assert read(sealed, Verification(mac="ignore")) == read(message({90: ORIGINAL}, mti=mti))


def test_unverifiable_mac_makes_a_sign_on_invalid() -> None:
    sign_on = message({70: "001", 64: "0123456789ABCDEF"}, mti="0800")
    assert network_management(sign_on).fields[39] == "30"
    assert network_management(sign_on, Verification(mac="ignore")).fields[39] == "00"


@pytest.mark.parametrize(
    "data", [CHIP, CHIP.lower(), f"70{len(CHIP) // 2:02X}{CHIP}", "9F1000", "9F108101AA"]
)
def test_well_formed_chip_data_are_present(data: str) -> None:
    assert content({55: data}).chip == "present"
    assert content({}).chip == "absent"
