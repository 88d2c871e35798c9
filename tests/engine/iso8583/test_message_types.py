"""Message type indicators: requests, their repeats and their answers, in both versions."""

from __future__ import annotations

import pytest

from engine.iso8583.message_types import MTIS_1987, MTIS_1993, Function, MessageType, MessageTypes

V1987 = MessageTypes("1987", MTIS_1987)
V1993 = MessageTypes("1993", MTIS_1993)


@pytest.mark.parametrize(
    ("mti", "function", "repeat", "response"),
    [
        ("0100", "authorization", False, "0110"),
        ("0101", "authorization", True, "0110"),
        ("0121", "advice", True, "0130"),
        ("0220", "presentment", False, "0230"),
        ("0400", "reversal", False, "0410"),
        ("0421", "reversal", True, "0430"),
        ("0800", "network_management", False, "0810"),
    ],
)
def test_requests_of_the_1987_version(mti: str, function: Function, repeat: bool, response: str) -> None:
    assert V1987.requests[mti] == MessageType(function, repeat, response, mti)
    assert V1987.is_repeat(mti) == repeat


@pytest.mark.parametrize(
    ("mti", "response", "canonical"),
    [
        ("1100", "1110", "0100"),
        ("1101", "1110", "0101"),
        ("1220", "1230", "0220"),
        ("1421", "1430", "0421"),
        ("1804", "1814", "0800"),
        ("1805", "1814", "0801"),
        ("1800", "1810", "0800"),
    ],
)
def test_requests_of_the_1993_version(mti: str, response: str, canonical: str) -> None:
    known = V1993.requests[mti]
    assert (known.response, known.canonical) == (response, canonical)
    assert V1993.response_mti(mti) == response
    assert V1993.own_mti(canonical) == {"1800": "1804"}.get(mti, mti)


def test_financial_request_can_be_an_authorization() -> None:
    types = MessageTypes("1987", {**MTIS_1987, "authorization": ("0100", "0200")})
    assert types.requests["0201"] == MessageType("authorization", True, "0210", "0101")
    assert types.own_mti("0101") == "0101"
    assert types.canonical_answer("0210") == "0110"
    assert types.authorizations == ("0100", "0200")


def test_other_request_has_no_function_but_an_answer() -> None:
    assert V1987.is_request("0320")
    assert V1987.response_mti("0320") == "0330"
    assert "0320" not in V1987.requests


@pytest.mark.parametrize("mti", ["0110", "0130", "1100", "0102", "0140", "9999"])
def test_other_mti_is_no_request(mti: str) -> None:
    assert not V1987.is_request(mti)


@pytest.mark.parametrize(
    ("mtis", "problem"),
    [
        (("0101",), "original"),
        (("1100",), "original"),
        (("0110",), "original"),
        (("010",), "four digits"),
        (("0220",), "two functions"),
    ],
)
def test_unsuitable_mti_is_refused(mtis: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        MessageTypes("1987", {**MTIS_1987, "authorization": mtis})
