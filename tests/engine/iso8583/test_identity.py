"""A message and its repeats have one command key and one fingerprint; follow-ups find it by their
references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.commands import reference_of_message, reference_of_network
from engine.iso8583.elements import ElementError, PresentmentReference
from engine.iso8583.identity import (
    AUTHORIZATION,
    REVERSAL,
    command_key,
    fingerprint,
    late_reversal_key,
    presentment_key,
    reversal_references,
    transaction_references,
    wire_identity,
)
from engine.iso8583.message import Message, as_repeat
from tests.support.engine.iso8583.messages import FIELDS, ORIGINAL, message

KEY = b"k" * 32
ARN = "7" * 23


@given(st.sampled_from([7, 11, 32, 37]), st.data())
def test_each_identity_field_changes_the_command_key(field: int, data: st.DataObject) -> None:
    other = {7: "1121103001", 11: "000124", 32: "4242421", 37: "632510000124"}[field]
    assert key_of(message({field: other})) != key_of(message())


def key_of(of: Message) -> bytes:
    return command_key(wire_identity(of), AUTHORIZATION)


def test_command_keys_of_domains_differ() -> None:
    assert len(key_of(message())) == 16
    assert key_of(message({4: "000000009999"})) == key_of(message())
    assert key_of(as_repeat(message())) == key_of(message())
    assert key_of(message()) != command_key(wire_identity(message()), REVERSAL)
    assert key_of(message()) == command_key(wire_identity(message(), "SN1"), AUTHORIZATION)


def test_repeat_has_the_same_fingerprint() -> None:
    original = message(t01="123")
    assert len(fingerprint(original, KEY)) == 16
    assert fingerprint(as_repeat(original), KEY) == fingerprint(original, KEY)


@given(st.sampled_from(sorted(FIELDS)))
def test_other_content_has_another_fingerprint(field: int) -> None:
    changed = {field: FIELDS[field][:-1] + ("x" if FIELDS[field][-1] != "x" else "y")}
    assert fingerprint(message(changed), KEY) != fingerprint(message(), KEY)
    assert fingerprint(message({field: None}), KEY) != fingerprint(message(), KEY)


def test_fingerprint_depends_on_its_key() -> None:
    assert fingerprint(message(), KEY) != fingerprint(message(), b"other" * 4)
    assert fingerprint(message(t01="123"), KEY) != fingerprint(message(t01="124"), KEY)


# Repeated presentments and reversals


def test_presentment_key_is_arn_and_sequence() -> None:
    wire, other = wire_identity(message()), wire_identity(message({11: "000124"}))
    first = PresentmentReference(ARN, 1)
    assert presentment_key(wire, first) == presentment_key(other, first)
    assert presentment_key(wire, first) != presentment_key(wire, PresentmentReference(ARN, 2))
    assert presentment_key(wire, first) != presentment_key(wire, PresentmentReference("8" * 23, 1))
    assert presentment_key(wire, None) != presentment_key(other, None)
    assert presentment_key(wire, None) != command_key(wire, AUTHORIZATION)


def test_resubmitted_presentment_has_the_same_fingerprint() -> None:
    resubmitted = {7: "1122103001", 11: "000124", 12: "103001", 13: "1122", 37: "632610000124"}
    first = message(mti="0220", t08=f"{ARN}01")
    assert fingerprint(message(resubmitted, mti="0220", t08=f"{ARN}01"), KEY) == fingerprint(first, KEY)
    assert fingerprint(as_repeat(first), KEY) == fingerprint(first, KEY)
    assert fingerprint(message({4: "000000009999"}, mti="0220", t08=f"{ARN}01"), KEY) != fingerprint(
        first, KEY
    )
    assert fingerprint(message({2: "4999999999999999"}, mti="0220", t08=f"{ARN}01"), KEY) != fingerprint(
        first, KEY
    )


def test_reversal_advice_has_the_fingerprint_of_its_request() -> None:
    request, advice = (message({90: ORIGINAL}, mti=mti) for mti in ("0400", "0420"))
    assert fingerprint(request, KEY) == fingerprint(advice, KEY) == fingerprint(as_repeat(advice), KEY)
    assert command_key(wire_identity(request), REVERSAL) == command_key(wire_identity(advice), REVERSAL)


def test_late_reversal_has_a_key_of_its_own() -> None:
    key = command_key(wire_identity(message()), AUTHORIZATION)
    assert len({key, late_reversal_key(key), late_reversal_key(late_reversal_key(key))}) == 3
    assert len(late_reversal_key(key)) == 16


# References from DE90


def original(**changes: str) -> str:
    """The reference to the example with changed identity fields."""
    fields = {int(name[2:]): value for name, value in changes.items()}
    return reference_of_message(command_key(wire_identity(message(fields)), AUTHORIZATION))


def named(de90: str = ORIGINAL, /, **changes: str) -> tuple[str, ...]:
    fields = {int(name[2:]): value for name, value in changes.items()}
    later = message({**fields, 90: de90}, mti="0420")
    return reversal_references(later, wire_identity(later))


def test_de90_finds_the_original_by_a_repeated_reference() -> None:
    assert named() == (original(),)
    assert named(de11="000777", de7="1121110000") == (original(),)
    assert named(de37="X2345Y000123") == (original(de37="X2345Y000123"),)


@pytest.mark.parametrize(
    ("sent", "rrn", "original_sent", "expected"),
    [
        ("1121110000", "632511000777", "1121103000", "632510000123"),
        ("0101000100", "700100000777", "1231235900", "636523000123"),  # across the new year
        ("0301000100", "806100000777", "0229235900", "806023000123"),
        ("0115000100", "601500000777", "0114235900", "601423000123"),
        ("0302000100", "506100000777", "0301100000", "506010000123"),
    ],
)
def test_de90_finds_the_original_by_a_derived_reference(
    sent: str, rrn: str, original_sent: str, expected: str
) -> None:
    found = named(ORIGINAL.replace("1121103000", original_sent), de7=sent, de11="000777", de37=rrn)
    assert found[0] == original(de7=original_sent, de37=expected)
    assert found[-1] == original(de7=original_sent, de37=rrn)


def test_reference_of_another_form_is_used_unchanged() -> None:
    assert named(de37="ABCDEFGHIJKL") == (original(de37="ABCDEFGHIJKL"),)


@pytest.mark.parametrize("acquirer", ["00000424242", "0" * 11])
def test_acquirer_in_de90_may_be_padded_or_absent(acquirer: str) -> None:
    assert named(f"01000001231121103000{acquirer}{'0' * 11}") == (original(),)


def test_acquirer_id_with_leading_zeros_matches_itself() -> None:
    assert named(f"01000001231121103000{'42'.zfill(11)}{'0' * 11}", de32="0042") == (original(de32="0042"),)


def test_message_of_another_acquirer_has_another_reference() -> None:
    assert named(f"01000001231121103000{'42'.zfill(11)}{'0' * 11}") == (original(de32="42"),)


def test_order_of_references() -> None:
    later = message({90: ORIGINAL}, mti="0420", t04="SN1")
    wire = wire_identity(later, "SN1")
    assert reversal_references(later, wire) == (original(), reference_of_network("SN1"))
    assert transaction_references(later, wire) == (reference_of_network("SN1"), original())
    assert transaction_references(message(), wire_identity(message())) == ()


def test_reversal_without_references_is_malformed() -> None:
    with pytest.raises(ElementError) as failed:
        reversal_references(message(mti="0420"), wire_identity(message()))
    assert failed.value.field == 90
