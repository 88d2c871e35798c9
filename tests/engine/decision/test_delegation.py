"""The request to a programme's endpoint, and its usable answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from engine.currencies import MerchantAmount
from engine.decision.delegation import EndpointResult, Question, question_body, read_answer
from tests.support.engine.build import CARD, NOW_MS, an_id

ID = an_id(0x51)
QUESTION = Question(
    authorization_id=ID,
    operation="authorization",
    card_id=CARD,
    amount_minor=1_250,
    currency="EUR",
    partial_allowed=True,
    mcc="5411",
    merchant_name="Corner Shop",
    merchant_country="IE",
    channel="pos",
    entry_mode="chip",
    mit=False,
)
UNUSABLE = EndpointResult(trigger="invalid_response")


def body(**parts: Any) -> bytes:
    return json.dumps({"authorization_id": ID, "decision": "approved"} | parts).encode()


def test_question_body_has_no_card_number() -> None:
    assert json.loads(question_body(QUESTION, NOW_MS)) == {
        "authorization_id": ID,
        "operation": "authorization",
        "card_id": CARD,
        "amount": "12.50",
        "currency": "EUR",
        "partial_allowed": True,
        "mcc": "5411",
        "merchant": {"name": "Corner Shop", "country": "IE"},
        "channel": "pos",
        "entry_mode": "chip",
        "mit": False,
        "deadline_at": "2026-11-21T10:00:00.000Z",
    }


def test_question_about_a_converted_purchase_has_both_amounts() -> None:
    converted = structs.replace(QUESTION, merchant_amount=MerchantAmount(2_039, "JPY", "0.00613"))
    body = json.loads(question_body(converted, NOW_MS))
    assert (body["amount"], body["currency"]) == ("12.50", "EUR")
    assert body["merchant_amount"] == {"amount": "2039", "currency": "JPY"}
    assert body["conversion_rate"] == "0.00613"


@pytest.mark.parametrize(
    ("answer", "endpoint_result"),
    [
        (body(), EndpointResult("approved")),
        (body(decision="declined"), EndpointResult("declined")),
        (body(decision="declined", approved_amount="99.99"), EndpointResult("declined")),
        (body(approved_amount=None), EndpointResult("approved")),
        (body(approved_amount="12.50"), EndpointResult("approved", 1_250)),
        (body(approved_amount="3"), EndpointResult("approved", 300)),
        (body(approved_amount={"amount": "3.10", "currency": "EUR"}), EndpointResult("approved", 310)),
        (body(note="further members are passed over"), EndpointResult("approved")),
    ],
)
def test_usable_answers(answer: bytes, endpoint_result: EndpointResult) -> None:
    assert read_answer(QUESTION, 200, answer) == endpoint_result


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"authorization_id": "' + ID.encode() + b'"}',
        body(authorization_id=an_id(0x52)),
        body(authorization_id=None),
        body(decision="APPROVED"),
        body(decision=True),
        body(approved_amount="12.51"),
        body(approved_amount="0"),
        body(approved_amount="-1"),
        body(approved_amount="1e1"),
        body(approved_amount=12),
        body(approved_amount={"amount": "3.10", "currency": "USD"}),
        body(approved_amount={"amount": "3.10"}),
        body() + b"x",
    ],
)
def test_unusable_answers(answer: bytes) -> None:
    assert read_answer(QUESTION, 200, answer) == UNUSABLE


@pytest.mark.parametrize("status", [100, 201, 204, 301, 302, 400, 404, 500, 503])
def test_only_status_200_is_usable(status: int) -> None:
    assert read_answer(QUESTION, status, body()) == UNUSABLE
