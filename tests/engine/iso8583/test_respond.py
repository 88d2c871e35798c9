"""A response depends only on the request's references and the stored answer: equal inputs give equal
bytes."""

from __future__ import annotations

import pytest

from engine.iso8583.elements import read_additional_amounts, read_private
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import answered, malformed, network_management, refusal, replied
from engine.replies import Done, NotExecuted, Problem, Reply, WireAnswer
from tests.support.engine.iso8583.messages import EXAMPLE

AUTHORIZATION = "01900000-0000-7000-8000-000000000007"
REQUEST = Message("0100", {int(number): value for number, value in EXAMPLE.items() if number != "t"})


def answer(code: str, approved_minor: int = 0, approval_code: str | None = None) -> WireAnswer:
    return WireAnswer(code, AUTHORIZATION, approval_code, approved_minor)


def test_approval_has_an_approval_code() -> None:
    response = answered(REQUEST, answer("00", 12_34, "ABC123"))
    assert response.mti == "0110"
    assert response.fields[39] == "00"
    assert response.fields[38] == "ABC123"
    assert read_private(response.fields[48]) == {"10": AUTHORIZATION}
    for number in (2, 3, 4, 7, 11, 12, 13, 32, 37, 41, 42, 49):
        assert response.fields[number] == REQUEST.fields[number]
    assert not {14, 18, 22, 43, 54} & set(response.fields)


def test_partial_approval_has_both_amounts() -> None:
    response = answered(REQUEST, answer("10", 5_00, "ABC123"))
    assert response.fields[4] == "000000000500"
    (original,) = read_additional_amounts(response.fields[54])
    assert (original.amount_type, original.currency, original.amount_minor) == ("57", "978", 12_34)


def test_decline_has_no_approval_code() -> None:
    response = answered(REQUEST, answer("51"))
    assert response.fields[39] == "51"
    assert 38 not in response.fields
    assert response.fields[4] == REQUEST.fields[4]


@pytest.mark.parametrize("mti", ["0120", "0220", "0400", "0420"])
def test_follow_up_response_has_the_authorization_id_if_known(mti: str) -> None:
    request = Message(mti, REQUEST.fields)
    known, unknown = answered(request, answer("00")), answered(request, WireAnswer("00", ""))
    assert read_private(known.fields[48]) == {"10": AUTHORIZATION}
    assert 48 not in unknown.fields
    assert (known.fields[39], unknown.fields[39]) == ("00", "00")


def test_repeat_gets_the_same_bytes() -> None:
    stored = answer("10", 5_00, "ABC123")
    assert ISO87_ASCII.encode(answered(as_repeat(REQUEST), stored)) == ISO87_ASCII.encode(
        answered(REQUEST, stored)
    )


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (NotExecuted("key_reused"), "94"),
        (NotExecuted("deadline"), "91"),
        (NotExecuted("overloaded"), "91"),
        (NotExecuted("unavailable"), "91"),
        (NotExecuted("not_owner"), "91"),
        (NotExecuted("faulty"), "96"),
        (Problem(409, "x", "y"), "96"),
        (Done(200, {}), "96"),
        (answer("57"), "57"),
    ],
)
def test_every_reply_has_a_response_code(reply: Reply, code: str) -> None:
    assert replied(REQUEST, reply).fields[39] == code


@pytest.mark.parametrize(
    ("mti", "response"),
    [
        ("0100", "0110"),
        ("0101", "0110"),
        ("0120", "0130"),
        ("0121", "0130"),
        ("0220", "0230"),
        ("0221", "0230"),
        ("0400", "0410"),
        ("0401", "0410"),
        ("0420", "0430"),
        ("0421", "0430"),
        ("0800", "0810"),
    ],
)
def test_response_types(mti: str, response: str) -> None:
    assert refusal(Message(mti, {}), "00").mti == response


@pytest.mark.parametrize("mti", ["0110", "0130", "0810", "1100", "0140", "0102", "9999"])
def test_undecodable_non_request_gets_no_answer(mti: str) -> None:
    assert malformed(Message(mti, {11: "000001"})) is None
    assert malformed(None) is None


def test_malformed_request_gets_30_and_its_references() -> None:
    response = malformed(Message("0100", {2: "4111111111111111", 7: "1121103000", 11: "000123"}))
    assert response == Message("0110", {7: "1121103000", 11: "000123", 39: "30"})


@pytest.mark.parametrize("code", ["001", "002", "301"])
def test_network_management_is_accepted(code: str) -> None:
    request = Message("0800", {7: "1121103000", 11: "000123", 70: code})
    assert network_management(request) == Message("0810", {7: "1121103000", 11: "000123", 70: code, 39: "00"})


@pytest.mark.parametrize(
    "fields", [{7: "1121103000", 11: "000123", 70: "999"}, {7: "1121103000", 11: "1"}, {70: "301"}]
)
def test_unknown_network_management_is_malformed(fields: dict[int, str]) -> None:
    assert network_management(Message("0800", fields)).fields[39] == "30"
