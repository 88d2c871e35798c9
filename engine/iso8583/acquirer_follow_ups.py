"""The acquirer's side: builds the follow-ups of a sale (increment, reversal, presentment, advice).

Each follow-up names the sale twice, as networks do: by the network's transaction id and by its first message
(DE90). ``tests/engine/iso8583/test_acquirer_follow_ups.py`` checks that ``content`` reads the same values.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.currencies import merchant_share_minor
from engine.decline import APPROVED
from engine.iso8583.acquirer import References, Sale, authorization_request, in_merchant_currency
from engine.iso8583.elements import (
    INCREMENT,
    TAG_FINAL,
    TAG_MIT,
    TAG_NETWORK_TXN_ID,
    TAG_OPERATION,
    TAG_PRESENTMENT,
    TAG_STAND_IN,
    OriginalElements,
    PresentmentReference,
    read_private,
    write_final,
    write_original_elements,
    write_presentment_reference,
    write_private,
    write_replacement_amount,
)
from engine.iso8583.message import Message

_AUTHORIZATION: Final = "0100"
_REPEATED_TAGS: Final = (TAG_NETWORK_TXN_ID, TAG_MIT)
"""Tags of the first message that follow-ups repeat. CVV2 and 3DS values must not be stored, so they are not
repeated."""
_NOT_REPEATED: Final = frozenset({23, 35, 52, 55})
"""Card data and PIN of the first message: an acquirer must not keep them after the authorization."""


class FirstMessage(msgspec.Struct, frozen=True):
    """The references by which follow-ups name the 0100 of a sale."""

    acquirer_id: str
    stan: str
    transmitted_at: str
    """DE7."""

    @property
    def elements(self) -> str:
        """DE90."""
        return write_original_elements(
            OriginalElements(_AUTHORIZATION, self.stan, self.transmitted_at, self.acquirer_id)
        )


def increment(sale: Sale, references: References, first: FirstMessage) -> Message:
    """The 0100 that adds the amount of ``sale`` to the authorized amount."""
    return _follow_up_of_sale("0100", sale, references, first, {TAG_OPERATION: INCREMENT})


def reversal_advice(
    sale: Sale, references: References, first: FirstMessage, remaining_minor: int | None
) -> Message:
    """The 0420 that reverses a sale: in full, or down to ``remaining_minor`` of its amount. DE95 states it in
    the currency of the purchase."""
    message = _follow_up_of_sale("0420", sale, references, first, {})
    if remaining_minor is not None:
        message.fields[95] = write_replacement_amount(in_merchant_currency(sale, remaining_minor))
    return message


def presentment(
    sale: Sale,
    references: References,
    first: FirstMessage | None,
    reference: PresentmentReference,
    final: bool,
) -> Message:
    """The 0220 of ``sale``; a force post has no ``first`` message."""
    tags = {TAG_PRESENTMENT: write_presentment_reference(reference), TAG_FINAL: write_final(final)}
    return _follow_up_of_sale("0220", sale, references, first, tags)


def timeout_reversal(request: Message) -> Message:
    """The 0420 for a ``request`` (0100) without an answer in time. It has the references of ``request``."""
    return _follow_up_of_request("0420", request, {}, {})


def increment_timeout_reversal(request: Message, remaining_minor: int) -> Message:
    """The 0420 for an increment without an answer in time. It leaves ``remaining_minor`` authorized.

    It names the sale, as the increment did, because DE95 is an amount of the sale.
    """
    fields = _kept(request)
    if 51 in fields:
        remaining_minor = merchant_share_minor(remaining_minor, int(fields[4]), int(fields[6]))
    amounts = {95: write_replacement_amount(remaining_minor)}
    return Message("0420", fields | amounts | {48: write_private(_repeated(fields))})


def stand_in_advice(request: Message, approval_code: str) -> Message:
    """The 0120 for a ``request`` (0100) that the network approved in the issuer's stead."""
    return _follow_up_of_request("0120", request, {38: approval_code, 39: APPROVED}, {TAG_STAND_IN: ""})


def _follow_up_of_sale(
    mti: str, sale: Sale, references: References, first: FirstMessage | None, tags: dict[str, str]
) -> Message:
    fields = authorization_request(sale, references).fields
    if first is not None:
        fields[90] = first.elements
    fields[48] = write_private(_repeated(fields) | tags)
    return Message(mti, fields)


def _follow_up_of_request(mti: str, request: Message, more: dict[int, str], tags: dict[str, str]) -> Message:
    fields = _kept(request)
    first = FirstMessage(fields[32], fields[11], fields[7])
    return Message(mti, fields | more | {48: write_private(_repeated(fields) | tags), 90: first.elements})


def _kept(request: Message) -> dict[int, str]:
    return {number: value for number, value in request.fields.items() if number not in _NOT_REPEATED}


def _repeated(fields: dict[int, str]) -> dict[str, str]:
    tags = read_private(fields[48]) if 48 in fields else {}
    return {tag: tags[tag] for tag in _REPEATED_TAGS if tag in tags}
