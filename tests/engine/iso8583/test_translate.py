"""A request becomes a command with the same values; its repeat becomes the same command."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.commands import Advise, Authorize, Present, Reverse
from engine.iso8583.content import Advice, AuthorizationRequest, Presentment, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.identity import ADVICE, AUTHORIZATION, REVERSAL, command_key, presentment_key
from engine.iso8583.message import as_repeat
from engine.iso8583.translate import Routed, to_command
from tests.support.engine.iso8583.messages import ORIGINAL, message

ROUTED = Routed("i", "c", b"f", expiry="match", cvv2="match", cvv1="match", authentication="present")
ARN = "7" * 23
PURCHASE = ("wire", "amount_minor", "currency", "mcc", "merchant_name", "merchant_country")


def test_authorization_becomes_an_authorize_command() -> None:
    content = read(message(t04="SN1", t05="MIT", t06="INC", t07="000000000500"))
    assert isinstance(content, AuthorizationRequest)
    command = to_command(content, ROUTED)
    assert isinstance(command, Authorize)
    assert command.command_key == command_key(content.purchase.wire, AUTHORIZATION)
    outcomes = (command.expiry, command.cvv2, command.cvv1, command.authentication)
    assert outcomes == ("match", "match", "match", "present")
    for name in (*PURCHASE, "kind", "references"):
        assert getattr(command, name) == getattr(content.purchase, name), name
    for name in ("channel", "entry_mode", "mit", "partial_allowed", "partial_cap_minor"):
        assert getattr(command, name) == getattr(content, name), name


@pytest.mark.parametrize(
    ("entry", "condition", "cvv2"),
    [
        ("051", "00", "absent"),
        ("071", "00", "absent"),
        ("901", "00", "absent"),
        ("012", "00", "missing"),
        ("812", "59", "missing"),
        ("102", "59", "missing"),
        ("002", "00", "missing"),
        (None, "00", "missing"),
    ],
)
def test_cvv2_is_missing_where_the_card_itself_was_not_read(
    entry: str | None, condition: str, cvv2: str
) -> None:
    content = read(message({22: entry, 25: condition}))
    command = to_command(content, Routed("i", "c", b"f"))
    assert isinstance(command, Authorize)
    assert command.cvv2 == cvv2


@pytest.mark.parametrize(
    ("chip", "recorded"), [("ignored", "present"), ("refused", "refused"), ("valid", "valid")]
)
def test_card_data_become_outcomes(chip: Any, recorded: str) -> None:
    card_data: dict[int, str | None] = {
        35: "4111111111111111=29112010000012300000",
        52: "0123456789ABCDEF",
        55: "9F360200FF9F2608A1A2A3A4A5A6A7A8",
    }
    content = read(message(card_data, t12="D02 XY45", t13="12 Harbour Street"))
    routed = msgspec.structs.replace(ROUTED, pin="refused", chip=chip)
    command = to_command(content, routed)
    assert isinstance(command, Authorize)
    assert (command.pin, command.chip, command.address) == ("refused", recorded, "present")
    assert command.chip_tags == ("9F36=00FF", "9F26=****")
    stored = msgspec.json.encode(command).decode() + repr(content)
    for secret in ("0123456789ABCDEF", "A1A2A3A4", "4111111111111111", "123000", "D02 XY45", "Harbour"):
        assert secret not in stored


def test_advice_becomes_an_advise_command() -> None:
    content = read(message({39: "05", 90: ORIGINAL}, mti="0120"))
    assert isinstance(content, Advice)
    command = to_command(content, ROUTED)
    assert isinstance(command, Advise)
    assert command.command_key == command_key(content.purchase.wire, ADVICE)
    for name in (*PURCHASE, "references"):
        assert getattr(command, name) == getattr(content.purchase, name), name
    for name in ("channel", "entry_mode", "approved"):
        assert getattr(command, name) == getattr(content, name), name


def test_presentment_becomes_a_present_command() -> None:
    content = read(message(mti="0220", t04="SN1", t08=f"{ARN}0012", t09="0"))
    assert isinstance(content, Presentment)
    command = to_command(content, ROUTED)
    assert isinstance(command, Present)
    assert command.command_key == presentment_key(content.purchase.wire, content.reference)
    assert (command.arn, command.sequence, command.final) == (ARN, 12, False)
    for name in (*PURCHASE, "kind", "references"):
        assert getattr(command, name) == getattr(content.purchase, name), name
    plain = to_command(read(message(mti="0220")), ROUTED)
    assert isinstance(plain, Present)
    assert (plain.arn, plain.sequence, plain.final) == (None, 1, True)


def test_reversal_becomes_a_reverse_command() -> None:
    content = read(message({90: ORIGINAL}, mti="0400", t04="SN1"))
    assert isinstance(content, ReversalNotice)
    command = to_command(content, ROUTED)
    assert isinstance(command, Reverse)
    assert command.command_key == command_key(content.wire, REVERSAL)
    assert (command.wire, command.references) == (content.wire, content.references)
    assert (command.remaining_minor, command.increment_minor) == (None, None)


@pytest.mark.parametrize("mti", ["0100", "0120", "0220", "0400", "0420"])
def test_repeat_becomes_the_same_command(mti: str) -> None:
    original = message({90: ORIGINAL}, mti=mti)
    command = to_command(read(original), ROUTED)
    assert (command.id, command.card_id, command.fingerprint) == ("i", "c", b"f")
    assert to_command(read(as_repeat(original)), ROUTED) == command


def test_one_identity_has_a_command_key_for_each_kind() -> None:
    keys = {
        to_command(read(message({90: ORIGINAL}, mti=mti)), ROUTED).command_key
        for mti in ("0100", "0120", "0220", "0420")
    }
    assert len(keys) == 4
