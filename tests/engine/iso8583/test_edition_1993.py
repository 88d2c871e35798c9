"""Messages of the 1993 version are translated to the form of the 1987 version and back."""

from __future__ import annotations

import pytest

from engine.iso8583.acquirer import References, Sale, authorization_request, network_request
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.content import AuthorizationRequest, Presentment, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.edition_1993 import from_1987, to_1987
from engine.iso8583.elements import ElementError, PresentmentReference
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII, ISO93_ASCII

AT_MS = 1_795_253_400_000  # 2026-11-21 09:30 UTC
REFERENCES = References("424242", "000123", AT_MS, "SN1")
FIRST = FirstMessage("424242", "000122", "1121090000")


def sale(**changes: object) -> Sale:
    values: dict[str, object] = {
        "pan": "4111111111111111",
        "amount_minor": 12_34,
        "currency": "EUR",
        "mcc": "5411",
        "merchant_name": "Corner shop",
        "merchant_country": "IE",
        "channel": "pos",
        "city": "Dublin",
        "entry_mode": "chip",
        "expiry": "2911",
    }
    return Sale(**{**values, **changes})  # type: ignore[arg-type]


def own(canonical: Message) -> Message:
    """The message as the network sends it, after the wire."""
    return ISO93_ASCII.decode(ISO93_ASCII.encode(ISO93_ASCII.own_request(canonical, AT_MS)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"entry_mode": "contactless"},
        {"entry_mode": "magstripe"},
        {"entry_mode": "manual"},
        {"entry_mode": None},
        {"entry_mode": None, "channel": "ecommerce", "cvv2": "737"},
        {"entry_mode": None, "channel": "moto"},
        {"entry_mode": None, "channel": "ecommerce", "mit": True},
        {"entry_mode": None, "mit": True},
        {"channel": "atm"},
        {"kind": "refund"},
        {"merchant_country": "GB", "partial_allowed": True, "partial_cap_minor": 5_00},
    ],
)
def test_sale_reads_the_same_in_both_versions(changes: dict[str, object]) -> None:
    canonical = authorization_request(sale(**changes), REFERENCES)
    assert read(own(canonical), profile=ISO93_ASCII) == read(canonical)


def test_follow_ups_read_the_same_in_both_versions() -> None:
    reference = PresentmentReference("7" * 23, 1)
    for canonical in (
        increment(sale(), REFERENCES, FIRST),
        reversal_advice(sale(), REFERENCES, FIRST, None),
        reversal_advice(sale(), REFERENCES, FIRST, 4_00),
        presentment(sale(), REFERENCES, FIRST, reference, final=True),
        presentment(sale(), REFERENCES, None, reference, final=False),
    ):
        content = read(own(canonical), profile=ISO93_ASCII)
        assert content == read(canonical)
        assert isinstance(content, AuthorizationRequest | Presentment | ReversalNotice)


def test_elements_of_the_1993_version() -> None:
    fields = own(authorization_request(sale(), REFERENCES)).fields
    assert (fields[7], fields[12], fields[22], fields[24], fields[26]) == (
        "1121093000",
        "261121093000",
        "000001500000",
        "100",
        "5411",
    )
    assert fields[43] == "Corner shop\\\\Dublin\\" + " " * 13 + "IRL"
    partial = own(reversal_advice(sale(), REFERENCES, FIRST, 4_00))
    assert partial.mti == "1420"
    assert (partial.fields[4], partial.fields[24], partial.fields[30]) == (
        "000000000400",
        "401",
        "000000001234000000000000",
    )
    assert partial.fields[56] == "1100" + "000122" + "261121090000" + "06424242"


def test_original_of_a_later_day_is_of_the_year_before() -> None:
    fields = {4: "0" * 12, 7: "0101000100", 90: FirstMessage("1", "000122", "1231235900").elements}
    assert from_1987(fields, {}, "reversal", 2027)[56][10:22] == "261231235900"


@pytest.mark.parametrize(("code", "own_code"), [("001", "801"), ("002", "802"), ("301", "831")])
def test_network_management(code: str, own_code: str) -> None:
    canonical = network_request(code, "000123", AT_MS)
    sent = own(canonical)
    assert (sent.mti, sent.fields[24]) == ("1804", own_code)
    assert ISO93_ASCII.to_canonical(sent)[0].fields[70] == code


def test_year_is_that_of_the_retrieval_reference() -> None:
    canonical = authorization_request(sale(), References("424242", "000123", AT_MS, "SN1"))
    next_year_ms = AT_MS + 60 * 86_400_000
    assert ISO93_ASCII.own_request(canonical, next_year_ms).fields[12][:2] == "26"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({43: "Corner shop"}, 43),
        ({43: "a\\b\\c\\" + "XXX".rjust(16)}, 43),
        ({43: "a\\b\\c\\IRL"}, 43),
        ({22: "051"}, 22),
        ({56: "1100"}, 56),
        ({56: "1100" + "000122" + "261121103000" + "07424242"}, 56),
        ({24: "401", 4: "0" * 12}, 30),
        ({24: "401", 30: "0" * 24}, 30),
    ],
)
def test_malformed_element_is_named(fields: dict[int, str], field: int) -> None:
    with pytest.raises(ElementError) as failed:
        to_1987(fields, {})
    assert failed.value.field == field


def test_two_letter_country_is_accepted() -> None:
    location = "Shop\\Street\\Dublin\\" + "IE ".rjust(16)
    assert to_1987({43: location}, {})[0][43] == "Shop".ljust(23) + "Dublin".ljust(15) + "IE"


def test_private_tags_name_the_increment_as_well() -> None:
    canonical = increment(sale(), REFERENCES, FIRST)
    sent = own(canonical)
    assert sent.fields[24] == "106"
    without = Message(sent.mti, {**sent.fields, 24: "100"})
    assert read(without, profile=ISO93_ASCII) == read(sent, profile=ISO93_ASCII)
    assert read(canonical, profile=ISO87_ASCII) == read(sent, profile=ISO93_ASCII)
