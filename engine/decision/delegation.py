"""The call to a programme's decision endpoint: the request and the usable answers (``ops/docs/STAND_IN.md``).

Bytes in, bytes out: ``actors.shards.endpoint`` makes the call.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from engine.currencies import MerchantAmount, merchant_members
from engine.instant import to_text
from engine.money import format_minor, parse_amount
from engine.programmes.stand_in import Grant, Trigger

USABLE_STATUS: Final = 200


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a programme's endpoint. Amounts in minor units; it has no card number."""

    authorization_id: str
    operation: Literal["authorization", "increment"]
    card_id: str
    amount_minor: int
    currency: str
    partial_allowed: bool
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: str
    entry_mode: str | None
    mit: bool
    merchant_amount: MerchantAmount | None = None


class EndpointResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of a call to a programme's endpoint: a usable answer, or the trigger of a stand-in with the
    grant of the programme's owner."""

    decision: Literal["approved", "declined"] | None = None
    """``None`` without a usable answer."""
    approved_minor: int | None = None
    """The largest amount that the programme approves; ``None`` is the requested amount."""
    trigger: Trigger | None = None
    grant: Grant | None = None
    """``None`` if the programme's owner did not answer in time."""


class _Money(msgspec.Struct):
    amount: str
    currency: str


class _Answer(msgspec.Struct):
    authorization_id: str
    decision: Literal["approved", "declined"]
    approved_amount: _Money | str | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode


def question_body(question: Question, deadline_ms: int) -> bytes:
    """The exact JSON to sign and send. An answer after ``deadline_ms`` is not usable."""
    body: dict[str, Any] = {
        "authorization_id": question.authorization_id,
        "operation": question.operation,
        "card_id": question.card_id,
        "amount": format_minor(question.amount_minor),
        "currency": question.currency,
        "partial_allowed": question.partial_allowed,
        "mcc": question.mcc,
        "merchant": {"name": question.merchant_name, "country": question.merchant_country},
        "channel": question.channel,
        "entry_mode": question.entry_mode,
        "mit": question.mit,
        "deadline_at": to_text(deadline_ms),
    }
    return msgspec.json.encode(body | merchant_members(question.merchant_amount))


def read_answer(question: Question, status: int, body: bytes) -> EndpointResult:
    """The programme's answer, or the trigger ``invalid_response`` if it is not usable."""
    unusable = EndpointResult(trigger="invalid_response")
    if status != USABLE_STATUS:
        return unusable
    try:
        answer = _decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return unusable
    if answer.authorization_id != question.authorization_id:
        return unusable
    if answer.decision == "declined" or answer.approved_amount is None:
        return EndpointResult(answer.decision)
    approved_minor = _minor(answer.approved_amount, question.currency)
    if approved_minor is None or not 0 < approved_minor <= question.amount_minor:
        return unusable
    return EndpointResult("approved", approved_minor)


def _minor(approved: _Money | str, currency: str) -> int | None:
    """Minor units of ``approved``: a decimal string, or a Money object in ``currency``; ``None``
    otherwise."""
    if isinstance(approved, str):
        return parse_amount(approved)
    return parse_amount(approved.amount) if approved.currency == currency else None
