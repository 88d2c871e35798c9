"""A profile replaces response codes by function, by decline reason and by code."""

from __future__ import annotations

import pytest

from engine.decline import APPROVED_PARTIALLY, DUPLICATE_CONFLICT, RESPONSE_CODES, VERIFIED
from engine.iso8583.message_types import Function
from engine.iso8583.profiles import ISO93_ASCII
from engine.iso8583.response_codes import ACTION_CODES_1993, ResponseCodes

OWN = ResponseCodes(
    {"51": "A1", "05": "A2"},
    {"cvv2_mismatch": "82", "card_not_found": "X4", "mcc_not_allowed": "X7"},
    {"reversal": "R0"},
)


@pytest.mark.parametrize(
    ("code", "function", "reason", "own"),
    [
        ("00", "authorization", None, "00"),
        ("00", "reversal", None, "R0"),
        ("51", "authorization", "insufficient_funds", "A1"),
        ("05", "authorization", "programme_declined", "A2"),
        ("05", "authorization", "cvv2_mismatch", "82"),
        ("N7", "authorization", "cvv2_mismatch", "82"),
        ("N7", "authorization", None, "82"),
        ("14", "authorization", None, "X4"),
        ("57", "authorization", None, "57"),
        ("57", "authorization", "mcc_not_allowed", "X7"),
        ("96", None, None, "96"),
    ],
)
def test_code_of_the_profile(code: str, function: Function | None, reason: str | None, own: str) -> None:
    assert OWN.own(code, function, reason) == own


@pytest.mark.parametrize(
    ("own", "code"), [("A1", "51"), ("A2", "05"), ("82", "N7"), ("R0", "00"), ("96", "96"), ("??", "??")]
)
def test_code_of_the_engine(own: str, code: str) -> None:
    assert OWN.canonical(own) == code


def test_profile_without_codes_changes_none() -> None:
    codes = ResponseCodes()
    assert codes.own("51", "authorization", "insufficient_funds") == "51"
    assert codes.canonical("51") == "51"
    assert codes.codes == set()


def test_1993_version_has_an_action_code_for_every_code() -> None:
    codes = {*RESPONSE_CODES.values(), "00", APPROVED_PARTIALLY, VERIFIED, DUPLICATE_CONFLICT, "21", "40"}
    assert codes <= set(ACTION_CODES_1993)
    assert {ISO93_ASCII.codes.own(code, "authorization").isdecimal() for code in codes} == {True}


@pytest.mark.parametrize(
    ("function", "own"), [("authorization", "000"), ("reversal", "400"), ("network_management", "800")]
)
def test_1993_version_has_acceptances_by_function(function: Function, own: str) -> None:
    assert ISO93_ASCII.codes.own("00", function) == own
    assert ISO93_ASCII.codes.canonical(own) == "00"


def test_other_approvals_of_the_1993_version_are_approvals() -> None:
    codes = [ISO93_ASCII.codes.canonical(own) for own in ("003", "007", "100", "190")]
    assert codes == ["00", "00", "05", "190"]
