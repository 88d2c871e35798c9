"""Answers, as a network gets them: the request's own references, DE39, and what an approval adds.

A response is a function of the request's fields and the stored answer alone. No clock and no counter goes
in, so a repeat that meets the stored answer gets the same bytes (wire case 1).
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
ECHO_TEST: Final = "301"
NETWORK_CODES: Final = frozenset({SIGN_ON, SIGN_OFF, ECHO_TEST})
"""DE70 of an 0800."""

ACCEPTED: Final = "00"
INVALID_MESSAGE: Final = RESPONSE_CODES["invalid_message"]
CARD_NOT_FOUND: Final = RESPONSE_CODES["card_not_found"]
DEADLINE_EXCEEDED: Final = RESPONSE_CODES["decision_deadline_exceeded"]
SYSTEM_ERROR: Final = RESPONSE_CODES["system_error"]
NO_ACTION: Final = "21"
"""A late reversal that has changed nothing: another exchange of the same message got the approval."""
SUSPECTED_FRAUD: Final = RESPONSE_CODES["risk_blocked"]
"""Of an unknown card number, when its sender has sent too many of them."""
NOT_SUPPORTED: Final = "40"
"""A message of the profile whose function this installation does not offer."""

ECHOED: Final[tuple[int, ...]] = (2, 3, 4, 7, 11, 12, 13, 32, 33, 37, 41, 42, 49, 70)
"""What every answer repeats of its request."""
_REFERENCES: tuple[int, ...] = (7, 11, 32, 37, 70)


def refusal(request: Message, response_code: str) -> Message:
    """A response that carries nothing but the request's references and ``response_code``."""
    fields = request.fields
    echoed = {number: fields[number] for number in ECHOED if number in fields}
    echoed[39] = response_code
    return Message(response_mti(request.mti), echoed)


def answered(request: Message, answer: WireAnswer) -> Message:
    """The response that an owner's answer makes (0110, 0130, 0230, 0410 or 0430).

    DE38 on approvals; on a partial one the approved amount in DE4 and the original in DE54; the id of the
    authorization in DE48, if there is one.
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
    """The response to whatever an owner, or the way to it, has said."""
    if isinstance(reply, WireAnswer):
        return answered(request, reply)
    return refusal(request, reply_code(reply))


def reply_code(reply: Reply) -> str:
    """DE39 for a reply that is no decision: 94 conflicting repeat, 91 no owner in time, 96 anything else."""
    if not isinstance(reply, NotExecuted) or reply.reason == "faulty":
        return SYSTEM_ERROR
    if reply.reason == "key_reused":
        return DUPLICATE_CONFLICT
    return DEADLINE_EXCEEDED


def approves(response_code: str) -> bool:
    """Whether DE39 says that the merchant may go on: in full, in part, or after a verification."""
    return response_code in (APPROVED, APPROVED_PARTIALLY, VERIFIED)


def malformed(read: Message | None) -> Message | None:
    """The answer to what could be ``read`` of an undecodable request, with DE39 = 30; none where no request
    can be recognised."""
    if read is None or not is_request(read.mti):
        return None
    references = {number: read.fields[number] for number in _REFERENCES if number in read.fields}
    references[39] = INVALID_MESSAGE
    return Message(response_mti(read.mti), references)


def network_management(request: Message, verification: Verification = DEFAULT_VERIFICATION) -> Message:
    """The 0810 to an 0800: sign-on, sign-off and echo test are accepted, anything else is malformed."""
    fields = request.fields
    known = fields.get(70) in NETWORK_CODES and 7 in fields and 11 in fields
    try:
        check_mac(fields, verification)
    except ElementError:
        known = False
    return refusal(request, ACCEPTED if known else INVALID_MESSAGE)
