"""Requests are read field by field. A missing or malformed field raises an error that names it."""

from __future__ import annotations

import pytest

from engine.commands import WireIdentity, reference_of_message, reference_of_network
from engine.currencies import MerchantAmount
from engine.iso8583.content import Advice, AuthorizationRequest, Presentment, ReversalNotice
from engine.iso8583.content_reader import (
    read,
    read_advice,
    read_authorization,
    read_presentment,
    read_reversal,
)
from engine.iso8583.elements import ElementError, write_private, write_replacement_amount
from engine.iso8583.identity import AUTHORIZATION, command_key, wire_identity
from engine.iso8583.profiles import parse_profile
from tests.support.engine.iso8583.messages import ORIGINAL, message


def test_purchase_is_read() -> None:
    request = read_authorization(message())
    assert request.purchase.pan == "4111111111111111"
    assert request.purchase.wire == WireIdentity("424242", "000123", "1121103000", "632510000123")
    assert (request.purchase.amount_minor, request.purchase.currency) == (12_34, "EUR")
    purchase = request.purchase
    assert (purchase.mcc, purchase.merchant_name, purchase.merchant_country) == ("5411", "Corner shop", "IE")
    assert (request.purchase.kind, request.channel, request.entry_mode, request.mit) == (
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
    assert (request.purchase.wire.network_txn_id, request.mit) == ("SN1", True)
    assert request.purchase.references == (reference_of_network("SN1"),)
    assert request.scenario == "slow"


def test_repr_hides_secrets() -> None:
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
def test_processing_code_determines_the_kind(processing: str, kind: str) -> None:
    assert read_authorization(message({3: processing})).purchase.kind == kind


@pytest.mark.parametrize(
    ("tag", "cap"), [("", None), ("1", None), ("Y", None), ("000000000500", 500), ("Y000000000500", 500)]
)
def test_partial_tag_has_an_optional_cap(tag: str, cap: int | None) -> None:
    request = read_authorization(message(t07=tag))
    assert (request.partial_allowed, request.partial_cap_minor) == (True, cap)


def test_credential_on_file_is_merchant_initiated() -> None:
    assert read_authorization(message({22: "102"})).mit


def test_unissued_currency_keeps_its_numeric_code() -> None:
    assert read_authorization(message({49: "392"})).purchase.currency == "392"


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
def test_missing_or_malformed_field_is_named_in_the_error(field: int, value: str | None) -> None:
    with pytest.raises(ElementError) as failed:
        read_authorization(message({field: value}))
    assert failed.value.field == field
    assert not (value and value.strip() and value in str(failed.value))


# Increments, reversals, advices, presentments

ARN = "7" * 23
ORIGINAL_KEY = reference_of_message(command_key(wire_identity(message()), AUTHORIZATION))
NETWORK = reference_of_network("SN1")


@pytest.mark.parametrize(
    ("mti", "type_"),
    [
        ("0100", AuthorizationRequest),
        ("0101", AuthorizationRequest),
        ("0120", Advice),
        ("0121", Advice),
        ("0220", Presentment),
        ("0221", Presentment),
        ("0400", ReversalNotice),
        ("0401", ReversalNotice),
        ("0420", ReversalNotice),
        ("0421", ReversalNotice),
    ],
)
def test_each_function_has_its_content_type(mti: str, type_: type) -> None:
    assert type(read(message({90: ORIGINAL}, mti=mti))) is type_


def test_only_an_increment_continues_a_transaction() -> None:
    assert read_authorization(message({90: ORIGINAL}, t04="SN1")).purchase.references == ()
    increment = read_authorization(message({90: ORIGINAL}, t04="SN1", t06="INC"))
    assert increment.purchase.references == (NETWORK, ORIGINAL_KEY)
    assert read_authorization(message(t06="INC")).purchase.references == ()


def test_reversal_references_start_with_the_message() -> None:
    whole = read_reversal(message({90: ORIGINAL}, mti="0420", t04="SN1"))
    assert (whole.references, whole.remaining_minor) == ((ORIGINAL_KEY, NETWORK), None)
    partial = read_reversal(message({90: ORIGINAL, 95: write_replacement_amount(5_00)}, mti="0400"))
    assert (partial.references, partial.remaining_minor) == ((ORIGINAL_KEY,), 5_00)
    assert read_reversal(message(mti="0420", t04="SN1")).references == (NETWORK,)


def test_reversal_needs_no_merchant_and_no_amount() -> None:
    bare = dict.fromkeys((3, 4, 12, 13, 18, 22, 25, 41, 42, 43, 49))
    assert read_reversal(message({**bare, 90: ORIGINAL}, mti="0400")).references == (ORIGINAL_KEY,)


@pytest.mark.parametrize(
    ("code", "approved"),
    [(None, True), ("00", True), ("10", True), ("85", True), ("05", False), ("91", False)],
)
def test_de39_of_an_advice_is_the_network_decision(code: str | None, approved: bool) -> None:
    advice = read_advice(message({39: code, 90: ORIGINAL}, mti="0120", t04="SN1"))
    assert (advice.approved, advice.purchase.references) == (approved, (NETWORK, ORIGINAL_KEY))


@pytest.mark.parametrize(
    ("tag", "final"), [(None, True), ("", True), ("1", True), ("Y", True), ("0", False), ("N", False)]
)
def test_finality_of_a_presentment(tag: str | None, final: bool) -> None:
    tags = {"t04": "SN1", "t08": f"{ARN}02"} | ({} if tag is None else {"t09": tag})
    presented = read_presentment(message({3: "200000"}, mti="0220", **tags))
    assert presented.reference is not None
    assert (presented.reference.arn, presented.reference.sequence) == (ARN, 2)
    assert (presented.final, presented.purchase.kind) == (final, "refund")
    assert presented.purchase.references == (NETWORK,)


def test_presentment_without_arn_has_no_reference() -> None:
    assert read_presentment(message(mti="0220")).reference is None


# Each row: MTI, field named in the error, fields and tags of an otherwise valid message.
UNREADABLE: list[tuple[str, int, dict[int, str | None], dict[str, str]]] = [
    ("0100", 3, {3: "200000"}, {"t06": "INC", "t04": "SN1"}),
    ("0100", 48, {}, {"t06": "DEC"}),
    ("0100", 48, {}, {"t04": " "}),
    ("0100", 90, {90: "0100"}, {"t06": "INC"}),
    ("0120", 3, {3: "200000"}, {}),
    ("0120", 48, {}, {"t06": "INC"}),
    ("0120", 43, {43: None}, {}),
    ("0220", 4, {4: None}, {}),
    ("0220", 48, {}, {"t08": ARN}),
    ("0220", 48, {}, {"t08": f"{ARN}00"}),
    ("0220", 48, {}, {"t08": f"{ARN}x1"}),
    ("0220", 48, {}, {"t08": f"{ARN}00001"}),
    ("0220", 48, {}, {"t08": f"{ARN}01", "t09": "2"}),
    ("0220", 90, {90: "x" * 42}, {}),
    ("0400", 90, {}, {}),
    ("0400", 90, {90: ORIGINAL[:-1]}, {}),
    ("0400", 90, {90: ORIGINAL.replace("1121103000", "1321103000")}, {}),
    ("0400", 2, {2: None, 90: ORIGINAL}, {}),
    ("0400", 37, {37: None, 90: ORIGINAL}, {}),
    ("0420", 4, {4: "00000000x234", 90: ORIGINAL}, {}),
    ("0420", 49, {49: "EUR", 90: ORIGINAL}, {}),
    ("0420", 95, {95: "5", 90: ORIGINAL}, {}),
    ("0420", 95, {95: "x" * 42, 90: ORIGINAL}, {}),
    ("0420", 95, {95: "", 90: ORIGINAL}, {}),
]


@pytest.mark.parametrize(("mti", "field", "changes", "tags"), UNREADABLE)
def test_malformed_field_of_every_class_is_named_in_the_error(
    mti: str, field: int, changes: dict[int, str | None], tags: dict[str, str]
) -> None:
    with pytest.raises(ElementError) as failed:
        read(message(changes, mti=mti, **tags))
    assert failed.value.field == field


ADVISING = parse_profile('name = "advising"\nincrements = "advice"\n', "advising.toml")


def test_increment_is_advised_where_the_profile_says_so() -> None:
    advised = message({39: "00"}, mti="0120", t04="SN1", t06="INC")
    advice = read_advice(advised, profile=ADVISING)
    assert (advice.increment, advice.purchase.amount_minor) == (True, 12_34)
    with pytest.raises(ElementError, match="advises an increment"):
        read_advice(advised)
    with pytest.raises(ElementError, match="which this network advises"):
        read_authorization(message(t06="INC"), profile=ADVISING)


CONVERTED = {4: "000000001000", 6: "000000000613", 10: "70061300", 49: "392", 51: "978"}


def test_converted_amount_is_read_in_the_currency_of_the_card() -> None:
    request = read_authorization(message(CONVERTED, t07="000000000500"))
    purchase = request.purchase
    assert (purchase.amount_minor, purchase.currency) == (613, "EUR")
    assert purchase.merchant_amount == MerchantAmount(1_000, "JPY", "0.00613")
    assert request.partial_cap_minor == 306


def test_equal_currencies_are_no_conversion() -> None:
    same = CONVERTED | {6: "000000001000", 49: "978"}
    assert read_authorization(message(same)).purchase.merchant_amount is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({6: None}, 6),
        ({51: None}, 51),
        ({51: "392"}, 6),
        ({6: "000000000000"}, 6),
        ({49: "964"}, 49),
        ({10: "70000000"}, 10),
    ],
)
def test_malformed_conversion_is_named_in_the_error(changes: dict[int, str | None], field: int) -> None:
    fields = {number: value for number, value in (CONVERTED | changes).items() if value is not None}
    with pytest.raises(ElementError) as error:
        read_authorization(message(fields))
    assert error.value.field == field
