"""Builds responses: the references of the request, DE39, and the fields that an approval adds.

A response is a function of the request's fields and the stored answer. It depends on no clock and no counter,
so a repeat gets the same bytes (``ops/docs/WIRE.md``, case 1).
"""

from __future__ import annotations

from typing import Final

from engine.decline import APPROVED, APPROVED_PARTIALLY, DUPLICATE_CONFLICT, RESPONSE_CODES, VERIFIED
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification, check_mac
from engine.iso8583.elements import (
    ORIGINAL_AMOUNT,
    TAG_AUTHORIZATION_ID,
    AdditionalAmount,
    ElementError,
    write_additional_amounts,
    write_private,
)
from engine.iso8583.message import Message, is_request, response_mti
from engine.replies import NotExecuted, Reply, WireAnswer

SIGN_ON: Final = "001"
SIGN_OFF: Final = "002"
KEY_CHANGE: Final = "101"
ECHO_TEST: Final = "301"
NETWORK_CODES: Final = frozenset({SIGN_ON, SIGN_OFF, ECHO_TEST})
"""DE70 of an 0800 that every link accepts; a key change needs a link with MACs."""

ACCEPTED: Final = "00"
INVALID_MESSAGE: Final = RESPONSE_CODES["invalid_message"]
CARD_NOT_FOUND: Final = RESPONSE_CODES["card_not_found"]
DEADLINE_EXCEEDED: Final = RESPONSE_CODES["decision_deadline_exceeded"]
SYSTEM_ERROR: Final = RESPONSE_CODES["system_error"]
NO_ACTION: Final = "21"
"""A late reversal without effect: another exchange of the same message got the approval."""
SUSPECTED_FRAUD: Final = RESPONSE_CODES["risk_blocked"]
"""For an unknown card number whose sender has exceeded the limit of card testing."""
NOT_SUPPORTED: Final = "40"
"""For a message whose function is not supported."""
NOT_PERMITTED: Final = "58"
"""For a message of a class that its link may not send."""
NOT_SERVED: Final = "31"
"""For a message of an institution, or about a card number, that does not belong to its link."""
SECURITY_VIOLATION: Final = "63"
"""For a message whose MAC is wrong, or missing where its link demands one."""

ECHOED: Final[tuple[int, ...]] = (2, 3, 4, 7, 11, 12, 13, 32, 33, 37, 41, 42, 49, 70)
"""Fields of the request that every answer repeats."""
_REFERENCES: tuple[int, ...] = (7, 11, 32, 37, 70)


def refusal(request: Message, response_code: str) -> Message:
    """A response with the request's references and ``response_code`` only."""
    fields = request.fields
    echoed = {number: fields[number] for number in ECHOED if number in fields}
    echoed[39] = response_code
    return Message(response_mti(request.mti), echoed)


def answered(request: Message, answer: WireAnswer) -> Message:
    """The response for an owner's answer (0110, 0130, 0230, 0410 or 0430).

    Approvals have DE38. Partial approvals have the approved amount in DE4 and the requested one in DE54. DE48
    has the authorization id, if there is one.
    """
    response = refusal(request, answer.response_code)
    fields = response.fields
    if answer.approval_code is not None:
        fields[38] = answer.approval_code
    if answer.response_code == APPROVED_PARTIALLY:
        original = AdditionalAmount(ORIGINAL_AMOUNT, request.fields[49], int(request.fields[4]))
        fields[4] = f"{answer.approved_minor:012d}"
        fields[54] = write_additional_amounts([original])
    if answer.authorization_id:
        fields[48] = write_private({TAG_AUTHORIZATION_ID: answer.authorization_id})
    return response


def replied(request: Message, reply: Reply) -> Message:
    """The response for a reply of the owner or of the router."""
    if isinstance(reply, WireAnswer):
        return answered(request, reply)
    return refusal(request, reply_code(reply))


def reply_code(reply: Reply) -> str:
    """DE39 for a reply without a decision: 94 conflicting repeat, 91 no owner in time, 96 otherwise."""
    if not isinstance(reply, NotExecuted) or reply.reason == "faulty":
        return SYSTEM_ERROR
    if reply.reason == "key_reused":
        return DUPLICATE_CONFLICT
    return DEADLINE_EXCEEDED


def approves(response_code: str) -> bool:
    """Whether DE39 is an approval: in full, in part, or of an account verification."""
    return response_code in (APPROVED, APPROVED_PARTIALLY, VERIFIED)


def malformed(read: Message | None) -> Message | None:
    """The answer (DE39 = 30) to an undecodable request, from the fields that could be ``read``. ``None`` if
    they do not identify a request."""
    if read is None or not is_request(read.mti):
        return None
    references = {number: read.fields[number] for number in _REFERENCES if number in read.fields}
    references[39] = INVALID_MESSAGE
    return Message(response_mti(read.mti), references)


def network_management(request: Message, verification: Verification = DEFAULT_VERIFICATION) -> Message:
    """The 0810 to an 0800. Accepts sign-on, sign-off and echo test; refuses others as malformed."""
    fields = request.fields
    known = fields.get(70) in NETWORK_CODES and 7 in fields and 11 in fields
    try:
        check_mac(fields, verification)
    except ElementError:
        known = False
    return refusal(request, ACCEPTED if known else INVALID_MESSAGE)
