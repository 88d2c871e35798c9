"""Private facts are read from and written to the places of a profile."""

from __future__ import annotations

import pytest

from engine.iso8583.elements import (
    TAG_CVV2,
    TAG_FINAL,
    TAG_NETWORK_TXN_ID,
    TAG_OPERATION,
    TAG_PARTIAL,
    TAG_SCENARIO,
    ElementError,
    write_private,
)
from engine.iso8583.private_data import MappedFacts, OwnTags, Place, TlvFormat, read_tlv, secret_fields
from engine.iso8583.tables import ELEMENTS_1987
from engine.pan import Masked

PLACES = {
    TAG_CVV2: Place(60, at=6, length=4),
    TAG_NETWORK_TXN_ID: Place(62),
    TAG_OPERATION: Place(63, tag="IN", equals="1"),
    TAG_PARTIAL: Place(60, at=0, length=1, equals="Y"),
    TAG_FINAL: Place(63, tag="FI", equals="L"),
}
FACTS = MappedFacts(PLACES, {63: TlvFormat(2, 2)}, ELEMENTS_1987)
FIELDS = {60: "Y     737 ", 62: "NET1", 63: "IN011FI01M"}


def test_facts_are_read_from_their_places() -> None:
    tags = FACTS.read(FIELDS)
    assert dict(tags) == {
        TAG_CVV2: "737",
        TAG_NETWORK_TXN_ID: "NET1",
        TAG_OPERATION: "INC",
        TAG_PARTIAL: "1",
        TAG_FINAL: "0",
    }
    assert type(tags[TAG_CVV2]) is Masked


@pytest.mark.parametrize("fields", [{}, {60: "N"}, {60: "N".ljust(20)}, {63: "IN010"}, {63: ""}])
def test_blank_place_has_no_fact(fields: dict[int, str]) -> None:
    assert FACTS.read(fields) == {}


def test_facts_are_written_to_their_places() -> None:
    fields: dict[int, str] = {}
    FACTS.write(
        fields,
        {
            TAG_CVV2: "737",
            TAG_PARTIAL: "",
            TAG_NETWORK_TXN_ID: "NET1",
            TAG_OPERATION: "INC",
            TAG_SCENARIO: "x",
        },
    )
    assert {number: value[:] for number, value in fields.items()} == {
        60: "Y     737 ",
        62: "NET1",
        63: "IN011",
    }
    assert FACTS.read(fields).keys() == {TAG_CVV2, TAG_PARTIAL, TAG_NETWORK_TXN_ID, TAG_OPERATION}


def test_value_that_is_longer_than_its_place_is_refused() -> None:
    with pytest.raises(ElementError, match="DE60"):
        FACTS.write({}, {TAG_CVV2: "73737"})


def test_fixed_field_is_padded() -> None:
    fields: dict[int, str] = {}
    MappedFacts({TAG_NETWORK_TXN_ID: Place(98)}, {}, ELEMENTS_1987).write(fields, {TAG_NETWORK_TXN_ID: "N"})
    assert fields[98][:] == "N".ljust(25)


def test_message_that_would_change_its_meaning_is_refused() -> None:
    with pytest.raises(ElementError, match="no place"):
        MappedFacts({}, {}, ELEMENTS_1987).write({}, {TAG_OPERATION: "INC"})


@pytest.mark.parametrize("text", ["I", "IN", "IN0", "INx1", "IN02a", "IN011IN011"])
def test_malformed_tlv_is_refused(text: str) -> None:
    with pytest.raises(ElementError, match="DE63"):
        read_tlv(63, text, TlvFormat(2, 2))


def test_fields_of_secrets_are_known() -> None:
    assert set(secret_fields(PLACES)) == {60}


def test_own_tags_are_those_of_field_48() -> None:
    tags = {TAG_CVV2: "737", TAG_NETWORK_TXN_ID: "NET1"}
    fields: dict[int, str] = {}
    OwnTags().write(fields, tags)
    assert fields == {48: write_private(tags)}
    assert OwnTags().read(fields) == tags
    assert OwnTags().read({}) == {}
