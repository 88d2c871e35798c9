"""Builds commands from requests.

Reading a request has two steps with I/O between them: ``content_reader.read`` reads the message, the edge
finds the card and checks its secrets, and ``to_command`` combines both.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.commands import Advise, Authorize, Present, Reverse
from engine.iso8583.content import Advice, AuthorizationRequest, Content, Presentment
from engine.iso8583.cryptography import Outcome
from engine.iso8583.elements import ENDPOINT_SILENT
from engine.iso8583.emv_tlv import shown
from engine.iso8583.identity import (
    ADVICE,
    AUTHORIZATION,
    DEFAULT_IDENTITY,
    REVERSAL,
    IdentityRule,
    presentment_key,
)
from engine.threeds import Authentication

_CARD_READ: Final = frozenset({"chip", "contactless", "magstripe"})
"""Entry modes in which a terminal has read the card."""


class Routed(msgspec.Struct, frozen=True):
    """The edge's part of a command: the card, and the results of the checks."""

    id: str
    """Id of the command, on the card's shard."""
    card_id: str
    fingerprint: bytes
    expiry: Literal["absent", "match", "mismatch"] = "absent"
    cvv2: Literal["absent", "match", "mismatch"] = "absent"
    cvv1: Literal["absent", "match", "mismatch"] = "absent"
    pin: Outcome = "absent"
    chip: Outcome = "absent"
    authentication: Authentication = "absent"


def to_command(
    content: Content, routed: Routed, rule: IdentityRule = DEFAULT_IDENTITY
) -> Authorize | Advise | Present | Reverse:
    """The command for the card's owner. A repeat has the same ``command_key`` and ``fingerprint``. ``rule``:
    the identity of messages in the link's profile."""
    if isinstance(content, AuthorizationRequest):
        return _authorize(content, routed, rule)
    if isinstance(content, Advice):
        return _advise(content, routed, rule)
    if isinstance(content, Presentment):
        return _present(content, routed, rule)
    return Reverse(
        id=routed.id,
        command_key=rule.command_key(content.wire, REVERSAL),
        card_id=routed.card_id,
        fingerprint=routed.fingerprint,
        wire=content.wire,
        references=content.references,
        remaining_minor=content.remaining_minor,
        remaining_currency=content.remaining_currency,
    )


def _authorize(content: AuthorizationRequest, routed: Routed, rule: IdentityRule) -> Authorize:
    purchase = content.purchase
    return Authorize(
        id=routed.id,
        command_key=rule.command_key(purchase.wire, AUTHORIZATION),
        card_id=routed.card_id,
        fingerprint=routed.fingerprint,
        wire=purchase.wire,
        amount_minor=purchase.amount_minor,
        currency=purchase.currency,
        mcc=purchase.mcc,
        merchant_name=purchase.merchant_name,
        merchant_country=purchase.merchant_country,
        merchant_id=purchase.merchant_id,
        channel=content.channel,
        kind=purchase.kind,
        entry_mode=content.entry_mode,
        mit=content.mit,
        partial_allowed=content.partial_allowed,
        partial_cap_minor=content.partial_cap_minor,
        expiry=routed.expiry,
        cvv2=_cvv2(content, routed),
        cvv1=routed.cvv1,
        pin=routed.pin,
        chip="present" if routed.chip == "ignored" else routed.chip,
        chip_tags=shown(content.chip, purchase.pan) if content.chip else (),
        address="present" if content.address else "absent",
        authentication=routed.authentication,
        merchant_amount=purchase.merchant_amount,
        references=purchase.references,
        endpoint_silent=content.scenario == ENDPOINT_SILENT,
    )


def _cvv2(content: AuthorizationRequest, routed: Routed) -> Literal["absent", "missing", "match", "mismatch"]:
    """``missing`` without a CVV2 if the card itself was not read: keyed, e-commerce, stored credentials, or
    an unspecified entry mode."""
    if routed.cvv2 != "absent" or content.entry_mode in _CARD_READ:
        return routed.cvv2
    return "missing"


def _advise(content: Advice, routed: Routed, rule: IdentityRule) -> Advise:
    purchase = content.purchase
    return Advise(
        id=routed.id,
        command_key=rule.command_key(purchase.wire, ADVICE),
        card_id=routed.card_id,
        fingerprint=routed.fingerprint,
        wire=purchase.wire,
        references=purchase.references,
        amount_minor=purchase.amount_minor,
        currency=purchase.currency,
        mcc=purchase.mcc,
        merchant_name=purchase.merchant_name,
        merchant_country=purchase.merchant_country,
        merchant_id=purchase.merchant_id,
        channel=content.channel,
        entry_mode=content.entry_mode,
        approved=content.approved,
        approval_code=content.approval_code if content.approved else None,
        stand_in=content.stand_in,
        merchant_amount=purchase.merchant_amount,
        increment=content.increment,
    )


def _present(content: Presentment, routed: Routed, rule: IdentityRule) -> Present:
    purchase, reference = content.purchase, content.reference
    return Present(
        id=routed.id,
        command_key=presentment_key(purchase.wire, reference, rule),
        card_id=routed.card_id,
        fingerprint=routed.fingerprint,
        wire=purchase.wire,
        references=purchase.references,
        kind=purchase.kind,
        amount_minor=purchase.amount_minor,
        currency=purchase.currency,
        mcc=purchase.mcc,
        merchant_name=purchase.merchant_name,
        merchant_country=purchase.merchant_country,
        merchant_id=purchase.merchant_id,
        arn=reference.arn if reference else None,
        sequence=reference.sequence if reference else 1,
        final=content.final,
        merchant_amount=purchase.merchant_amount,
    )
