"""What a network says becomes a command, field by field; what is missing or malformed is named and never
guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.commands import WireIdentity
from engine.iso8583.elements import ElementError, write_private
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.translate import command_key, fingerprint, read_authorization, to_command, wire_identity
from tests.engine.iso8583.messages import EXAMPLE

KEY = b"k" * 32
FIELDS = {int(number): value for number, value in EXAMPLE.items() if number != "t"}


def message(changes: dict[int, str | None] | None = None, /, **tags: str) -> Message:
    """The example with some fields replaced or (``None``) removed, and DE48 made of ``tags`` (``t01=…``)."""
    fields = FIELDS | (changes or {})
    if tags:
        fields = fields | {48: write_private({name[1:]: value for name, value in tags.items()})}
    return Message("0100", {number: value for number, value in fields.items() if value is not None})


def test_a_plain_purchase() -> None:
    request = read_authorization(message())
    assert request.pan == "4111111111111111"
    assert request.wire == WireIdentity("424242", "000123", "1121103000", "632510000123")
    assert (request.amount_minor, request.currency) == (12_34, "EUR")
    assert (request.mcc, request.merchant_name, request.merchant_country) == ("5411", "Corner shop", "IE")
    assert (request.kind, request.channel, request.entry_mode, request.mit) == (
        "purchase",
        "pos",
        "chip",
        False,
    )
    assert (request.partial_allowed, request.partial_cap_minor) == (False, None)
    assert (request.cvv2, request.auth_value, request.threeds_ref) == (None, None, None)


def test_private_tags_are_read() -> None:
    tags = {
        "t01": "123",
        "t02": "AAAB",
        "t03": "ref",
        "t04": "SN1",
        "t05": "MIT",
        "t06": "INC",
        "t99": "slow",
    }
    request = read_authorization(message(**tags))
    assert (request.cvv2, request.auth_value, request.threeds_ref) == ("123", "AAAB", "ref")
    assert (request.wire.network_txn_id, request.mit, request.operation) == ("SN1", True, "INC")
    assert request.scenario == "slow"


def test_no_secret_is_shown() -> None:
    request = read_authorization(message(t01="987", t02="AAABBB"))
    shown = f"{request!r} {request}"
    assert not any(secret in shown for secret in ("4111", "987", "AAABBB", "2911"))


# DE3, DE22 and DE25, then channel and entry mode.
CHANNELS = [
    ("000000", "051", "00", "pos", "chip"),
    ("000000", "071", "00", "pos", "contactless"),
    ("000000", "901", None, "pos", "magstripe"),
    ("000000", "021", "00", "pos", "magstripe"),
    ("000000", "000", "00", "pos", None),
    ("000000", "991", "00", "pos", None),
    ("000000", None, None, "pos", None),
    ("000000", "810", "00", "ecommerce", "ecommerce"),
    ("000000", "810", "59", "ecommerce", "ecommerce"),
    ("000000", "010", "59", "ecommerce", "manual"),
    ("000000", "100", "00", "ecommerce", "credential_on_file"),
    ("000000", "100", "05", "pos", "credential_on_file"),
    ("000000", "012", "00", "moto", "manual"),
    ("000000", "012", "08", "moto", "manual"),
    ("000000", "012", "71", "pos", "manual"),
    ("010000", "051", "00", "atm", "chip"),
    ("010000", "051", "59", "atm", "chip"),
]


@pytest.mark.parametrize(("processing", "entry", "condition", "channel", "mode"), CHANNELS)
def test_channel_and_entry_mode(
    processing: str, entry: str | None, condition: str | None, channel: str, mode: str | None
) -> None:
    request = read_authorization(message({3: processing, 22: entry, 25: condition}))
    assert (request.channel, request.entry_mode) == (channel, mode)


@pytest.mark.parametrize(
    ("processing", "kind"), [("000000", "purchase"), ("013000", "purchase"), ("200020", "refund")]
)
def test_kinds(processing: str, kind: str) -> None:
    assert read_authorization(message({3: processing})).kind == kind


@pytest.mark.parametrize(
    ("tag", "cap"), [("", None), ("1", None), ("Y", None), ("000000000500", 500), ("Y000000000500", 500)]
)
def test_partial_amounts(tag: str, cap: int | None) -> None:
    request = read_authorization(message(t07=tag))
    assert (request.partial_allowed, request.partial_cap_minor) == (True, cap)


def test_credential_on_file_is_merchant_initiated() -> None:
    assert read_authorization(message({22: "102"})).mit


def test_a_foreign_currency_keeps_its_number() -> None:
    assert read_authorization(message({49: "392"})).currency == "392"


# Every mandatory field, absent and in each wrong form.
BROKEN: list[tuple[int, str | None]] = [
    *[(number, None) for number in (2, 3, 4, 7, 11, 18, 32, 37, 43, 49)],
    (2, "41111111111"),
    (2, "411111111111111x"),
    (2, ""),
    (3, "000x00"),
    (3, "990000"),
    (4, "00000000123 "),
    (4, "-00000001234"),
    (7, "1321103000"),
    (7, "1132103000"),
    (7, "1121243000"),
    (7, "1121106000"),
    (7, "112110300x"),
    (11, "00012x"),
    (18, "54 1"),
    (22, "0x1"),
    (32, "42424x"),
    (32, ""),
    (37, " " * 12),
    (43, "Corner shop".ljust(40)),
    (48, "01"),
    (48, write_private({"07": "12"})),
    (49, "EUR"),
]


@pytest.mark.parametrize(("field", "value"), BROKEN)
def test_what_is_missing_or_malformed_is_named(field: int, value: str | None) -> None:
    with pytest.raises(ElementError) as failed:
        read_authorization(message({field: value}))
    assert failed.value.field == field
    assert not (value and value.strip() and value in str(failed.value))


def test_the_command_carries_the_request() -> None:
    request = read_authorization(message(t04="SN1", t07="000000000500"))
    command = to_command(
        request,
        authorization_id="a",
        card_id="c",
        fingerprint=b"f",
        cvv2="match",
        authentication="absent",
    )
    assert (command.id, command.card_id, command.fingerprint) == ("a", "c", b"f")
    assert command.command_key == command_key(request.wire, "authorization")
    assert (command.cvv2, command.authentication) == ("match", "absent")
    shared = set(command.__struct_fields__) & set(request.__struct_fields__) - {"cvv2"}
    assert len(shared) == 12
    assert all(getattr(command, name) == getattr(request, name) for name in shared)


# Identity and fingerprint


@given(st.sampled_from([7, 11, 32, 37]), st.data())
def test_each_part_of_the_identity_counts(field: int, data: st.DataObject) -> None:
    other = {7: "1121103001", 11: "000124", 32: "4242421", 37: "632510000124"}[field]
    assert key_of(message({field: other})) != key_of(message())


def key_of(of: Message) -> bytes:
    return command_key(wire_identity(of), "authorization")


def test_the_key_names_one_message_in_one_domain() -> None:
    assert len(key_of(message())) == 16
    assert key_of(message({4: "000000009999"})) == key_of(message())
    assert key_of(as_repeat(message())) == key_of(message())
    assert key_of(message()) != command_key(wire_identity(message()), "reversal")
    assert key_of(message()) == command_key(wire_identity(message(), "SN1"), "authorization")


def test_an_honest_repeat_has_the_same_fingerprint() -> None:
    original = message(t01="123")
    assert len(fingerprint(original, KEY)) == 16
    assert fingerprint(as_repeat(original), KEY) == fingerprint(original, KEY)


@given(st.sampled_from(sorted(FIELDS)))
def test_any_other_content_has_another_fingerprint(field: int) -> None:
    changed: Any = {field: FIELDS[field][:-1] + ("x" if FIELDS[field][-1] != "x" else "y")}
    assert fingerprint(message(changed), KEY) != fingerprint(message(), KEY)
    assert fingerprint(message({field: None}), KEY) != fingerprint(message(), KEY)


def test_fingerprints_need_their_key() -> None:
    assert fingerprint(message(), KEY) != fingerprint(message(), b"other" * 4)
    assert fingerprint(message(t01="123"), KEY) != fingerprint(message(t01="124"), KEY)
