"""Verification data: expiries are compared, MACs are refused or demanded, PIN blocks, chip data and addresses
must be well-formed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.iso8583.card_data import Verification, check_expiry
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.content_reader import read
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
        (52, "0123456789ABCDE"),
        (55, ""),
        (55, "9F2608AABB"),
        (55, "5A085555555555554444"),
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


def test_pin_block_is_masked() -> None:
    found = content({52: "0123456789ABCDEF"})
    assert found.pin == "0123456789ABCDEF"
    assert "0123456789ABCDEF" not in f"{found} {found.pin}"
    assert content({}).pin is None


@pytest.mark.parametrize(
    ("entry", "fields", "tags", "invalid"),
    [
        ("051", {}, {}, True),
        ("071", {}, {}, True),
        ("901", {}, {}, True),
        ("012", {}, {}, True),
        ("812", {}, {}, False),
        ("102", {}, {}, False),
        ("002", {}, {}, False),
        (None, {}, {}, False),
        ("051", {14: "2911"}, {}, False),
        ("901", {35: f"{PAN}=29112010000012300000"}, {}, False),
        ("901", {35: f"{PAN}==2010000012300000"}, {}, True),
        ("051", {}, {"t04": "SN1", "t06": "INC"}, False),
    ],
)
def test_expiry_may_be_required_where_the_entry_mode_carries_it(
    entry: str | None, fields: dict[int, str], tags: dict[str, str], invalid: bool
) -> None:
    request = message({14: None, 22: entry, **fields}, **tags)
    assert isinstance(read(request), AuthorizationRequest)
    strict = Verification(expiry="required")
    if not invalid:
        assert read(request, strict) == read(request)
        return
    with pytest.raises(ElementError) as refused:
        read(request, strict)
    assert refused.value.field == 14


@pytest.mark.parametrize(
    ("tags", "present"),
    [
        ({}, False),
        ({"t12": "D02 XY45"}, True),
        ({"t12": "10115", "t13": "Main Street 1"}, True),
        ({"t13": "1"}, True),
    ],
)
def test_billing_address_is_present_if_well_formed(tags: dict[str, str], present: bool) -> None:
    found = read(message(**tags))
    assert isinstance(found, AuthorizationRequest)
    assert found.address == present


@pytest.mark.parametrize(
    "tags", [{"t12": ""}, {"t12": " D02"}, {"t12": "x" * 11}, {"t12": "D#2"}, {"t13": ""}, {"t13": "x" * 41}]
)
def test_malformed_billing_address_makes_the_message_invalid(tags: dict[str, str]) -> None:
    with pytest.raises(ElementError) as refused:
        read(message(**tags))
    assert refused.value.field == 48


def test_policy_is_read_from_plain_values() -> None:
    """A profile or a link carries it in a file."""
    assert msgspec.convert({"pin": "ignore", "chip": "verify"}, Verification) == Verification(
        pin="ignore", chip="verify"
    )
    for wrong in ({"pin": "accept"}, {"pins": "ignore"}, {"expiry": True}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Verification)


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


@pytest.mark.parametrize("number", [64, 128])
def test_demanded_mac_must_be_there(number: int) -> None:
    strict = Verification(mac="verify")
    sealed = message({number: "0123456789ABCDEF"})
    assert read(sealed, strict) == read(message())
    with pytest.raises(ElementError, match="is missing"):
        read(message(), strict)
    assert network_management(message({70: "001"}, mti="0800"), strict).fields[39] == "30"


@pytest.mark.parametrize(
    "data", [CHIP, CHIP.lower(), f"70{len(CHIP) // 2:02X}{CHIP}", "9F1000", "9F108101AA"]
)
def test_well_formed_chip_data_are_read(data: str) -> None:
    assert content({55: data}).chip
    assert content({}).chip == ()
