"""Builds responses: the references of the request, DE39, and the fields that an approval adds.

A response is a function of the request's fields and the stored answer. It depends on no clock and no counter,
so a repeat gets the same bytes (``ops/docs/WIRE.md``, case 1). ``profile`` is that of the link; response
codes are those of the engine, which the profile may replace.
"""

from __future__ import annotations

from typing import Final

from engine.currencies import merchant_share_minor
from engine.decline import APPROVED, APPROVED_PARTIALLY, DUPLICATE_CONFLICT, RESPONSE_CODES, VERIFIED
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification, check_mac
from engine.iso8583.elements import (
    ORIGINAL_AMOUNT,
    TAG_AUTHORIZATION_ID,
    AdditionalAmount,
    ElementError,
    write_additional_amounts,
)
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
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

_NOT_REFERENCES: Final = frozenset({2, 3, 4, 5, 6, 9, 10, 13, 33, 41, 42, 49, 50, 51})
"""Echoed fields that the answer to an undecodable request leaves out."""


def refusal(request: Message, response_code: str, profile: Profile = ISO87_ASCII) -> Message:
    """A response with the request's references and ``response_code`` only."""
    return _response(request, response_code, None, profile)


def _response(request: Message, response_code: str, reason: str | None, profile: Profile) -> Message:
    fields = request.fields
    mti = request.mti
    echoed = {number: fields[number] for number in profile.echoed if number in fields}
    if not profile.codes.unchanged:
        response_code = profile.codes.own(response_code, profile.function(mti), reason)
    echoed[39] = response_code
    response_mti = profile.messages.response_mti(mti)
    if profile.header is None:
        return Message(response_mti, echoed)
    return Message(response_mti, echoed, profile.header.answer(request.header))


def answered(request: Message, answer: WireAnswer, profile: Profile = ISO87_ASCII) -> Message:
    """The response for an owner's answer (0110, 0130, 0230, 0410 or 0430).

    Approvals have DE38. Partial approvals have the approved amount in DE4 and the requested one in DE54; in
    the answer to a converted purchase, DE6 is the approved amount and DE4 its share of the merchant amount.
    The private data have the authorization id, if there is one.
    """
    response = _response(request, answer.response_code, answer.reason, profile)
    fields = response.fields
    if answer.approval_code is not None:
        fields[38] = answer.approval_code
    if answer.response_code == APPROVED_PARTIALLY:
        original = AdditionalAmount(ORIGINAL_AMOUNT, request.fields[49], int(request.fields[4]))
        fields |= _approved_amounts(request, answer.approved_minor)
        fields[54] = write_additional_amounts([original])
    if answer.authorization_id:
        profile.private.write(fields, {TAG_AUTHORIZATION_ID: answer.authorization_id})
    return response


def _approved_amounts(request: Message, approved_minor: int) -> dict[int, str]:
    """DE4, and DE6 of a converted purchase, for a partial approval."""
    fields = request.fields
    if 51 not in fields or fields[51] == fields[49]:
        both = {6: f"{approved_minor:012d}"} if 6 in fields else {}
        return {4: f"{approved_minor:012d}"} | both
    merchant_minor = merchant_share_minor(approved_minor, int(fields[4]), int(fields[6]))
    return {4: f"{merchant_minor:012d}", 6: f"{approved_minor:012d}"}


def replied(request: Message, reply: Reply, profile: Profile = ISO87_ASCII) -> Message:
    """The response for a reply of the owner or of the router."""
    if isinstance(reply, WireAnswer):
        return answered(request, reply, profile)
    return refusal(request, reply_code(reply), profile)


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


def malformed(read: Message | None, profile: Profile = ISO87_ASCII) -> Message | None:
    """The answer (DE39 = 30) to an undecodable request, from the fields that could be ``read``. ``None`` if
    they do not identify a request."""
    if read is None or not profile.messages.is_request(read.mti):
        return None
    response = refusal(read, INVALID_MESSAGE, profile)
    references = {number: value for number, value in response.fields.items() if number not in _NOT_REFERENCES}
    return Message(response.mti, references, response.header)


def network_management(
    request: Message, verification: Verification = DEFAULT_VERIFICATION, profile: Profile = ISO87_ASCII
) -> Message:
    """The 0810 to an 0800. Accepts sign-on, sign-off and echo test; refuses others as malformed."""
    try:
        check_mac(request.fields, verification)
        fields = profile.to_canonical(request)[0].fields
        known = fields.get(70) in NETWORK_CODES and 7 in fields and 11 in fields
    except ElementError:
        known = False
    return refusal(request, ACCEPTED if known else INVALID_MESSAGE, profile)
