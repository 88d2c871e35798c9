"""Reads the content of financial requests.

A missing or malformed field raises ``ElementError``, which becomes DE39 = 30; no value is guessed. The policy
(``Verification``) decides about MACs and missing expiries; ``cryptography`` and the card's owner decide about
the other verification data. Other fields are part of the fingerprint and otherwise ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from engine.commands import Channel, EntryMode
from engine.currencies import CURRENCY_BY_NUMERIC, MerchantAmount, billing_cap_minor, read_rate
from engine.decline import APPROVED, APPROVED_PARTIALLY, VERIFIED
from engine.iso8583.card_data import (
    CARRY_EXPIRY,
    DEFAULT_VERIFICATION,
    Verification,
    check_mac,
    read_address,
    read_chip_data,
    read_expiries,
    read_pin,
    read_track,
)
from engine.iso8583.content import (
    CASH,
    PURCHASE,
    REFUND,
    Advice,
    AuthorizationRequest,
    Content,
    Kind,
    Presentment,
    Purchase,
    ReversalNotice,
)
from engine.iso8583.elements import (
    INCREMENT,
    TAG_AUTHENTICATION,
    TAG_CVV2,
    TAG_FINAL,
    TAG_MIT,
    TAG_NETWORK_TXN_ID,
    TAG_OPERATION,
    TAG_PARTIAL,
    TAG_PRESENTMENT,
    TAG_SCENARIO,
    TAG_STAND_IN,
    TAG_THREEDS_REFERENCE,
    ElementError,
    read_card_acceptor,
    read_final,
    read_presentment_reference,
    read_replacement_amount,
)
from engine.iso8583.identity import reversal_references, transaction_references
from engine.iso8583.message import Message
from engine.iso8583.message_types import Function
from engine.iso8583.private_data import Tags
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.reading import Fields, card_number, digits, masked, optional_digits, present
from engine.money import CURRENCY_ALPHA

_KINDS: Final[dict[str, Kind]] = {
    PURCHASE: "purchase",
    CASH: "purchase",
    REFUND: "refund",
}

ENTRY_CODES: Final[dict[str, EntryMode]] = {
    "01": "manual",
    "02": "magstripe",
    "05": "chip",
    "07": "contactless",
    "10": "credential_on_file",
    "80": "magstripe",  # chip card whose chip could not be read
    "81": "ecommerce",
    "90": "magstripe",
    "91": "contactless",
    "95": "chip",
}
"""Entry mode by the first two digits of DE22; other codes leave it unspecified."""

CONDITION_CHANNELS: Final[dict[str, Channel]] = {
    "05": "pos",  # cardholder present, card not present
    "08": "moto",
    "59": "ecommerce",
    "71": "pos",  # card present, keyed in
}
"""Codes of DE25 that determine the channel. For other codes, DE22 determines it."""

_ENTRY_CHANNELS: Final[dict[str, Channel]] = {"01": "moto", "10": "ecommerce", "81": "ecommerce"}

_PARTIAL = re.compile(r"[1Y]?(\d{12})?", re.ASCII)


def read(
    message: Message,
    verification: Verification = DEFAULT_VERIFICATION,
    profile: Profile = ISO87_ASCII,
) -> Content:
    """The content of a financial request of ``profile``. Raises ``ElementError`` for the first field that is
    missing or malformed or is a MAC that cannot be verified, ``KeyError`` for a function that is not in
    ``FUNCTIONS``."""
    check_mac(message.fields, verification)
    return _READERS[profile.messages.requests[message.mti].function](message, verification, profile)


def read_authorization(
    message: Message,
    verification: Verification = DEFAULT_VERIFICATION,
    profile: Profile = ISO87_ASCII,
) -> AuthorizationRequest:
    """The content of an 0100 or 0101."""
    message, tags = profile.to_canonical(message)
    fields = message.fields
    increment = _increment(tags)
    if increment and profile.increments == "advice":
        raise ElementError(48, "asks for an increment, which this network advises")
    purchase = _purchase(message, tags, profile, continues=increment)
    if increment and purchase.kind == "refund":
        raise ElementError(3, "is a refund, which cannot be incremented")
    entry = _entry(fields)
    track = read_track(fields, purchase.pan, entry)
    expiries = read_expiries(fields, track)
    if verification.expiry == "required" and not (expiries or increment):
        _check_expiry_is_optional(entry)
    return AuthorizationRequest(
        purchase=purchase,
        channel=_channel(fields, entry),
        entry_mode=ENTRY_CODES.get(entry),
        mit=TAG_MIT in tags or entry == "10",
        partial_allowed=TAG_PARTIAL in tags,
        partial_cap_minor=_partial_cap(tags.get(TAG_PARTIAL), purchase),
        expiries=expiries,
        track=track,
        pin=read_pin(fields),
        chip=read_chip_data(fields, purchase.pan),
        address=read_address(tags),
        cvv2=masked(tags.get(TAG_CVV2)),
        auth_value=masked(tags.get(TAG_AUTHENTICATION)),
        threeds_ref=tags.get(TAG_THREEDS_REFERENCE),
        scenario=tags.get(TAG_SCENARIO),
    )


def read_advice(
    message: Message,
    _verification: Verification = DEFAULT_VERIFICATION,
    profile: Profile = ISO87_ASCII,
) -> Advice:
    """The content of an 0120 or 0121. Without DE39 it reports an approval. Its amount is the final one,
    unless the network of ``profile`` advises increments. A refund has no hold to correct, so it cannot be
    advised."""
    message, tags = profile.to_canonical(message)
    fields = message.fields
    purchase = _purchase(message, tags, profile)
    if purchase.kind == "refund":
        raise ElementError(3, "is a refund, which is presented and not advised")
    increment = _increment(tags)
    if increment and profile.increments != "advice":
        raise ElementError(48, "advises an increment")
    entry = _entry(fields)
    return Advice(
        purchase=purchase,
        channel=_channel(fields, entry),
        entry_mode=ENTRY_CODES.get(entry),
        approved=fields.get(39, APPROVED) in (APPROVED, APPROVED_PARTIALLY, VERIFIED),
        approval_code=fields.get(38, "").strip() or None,
        stand_in=TAG_STAND_IN in tags,
        increment=increment,
    )


def read_presentment(
    message: Message,
    _verification: Verification = DEFAULT_VERIFICATION,
    profile: Profile = ISO87_ASCII,
) -> Presentment:
    """The content of an 0220 or 0221."""
    message, tags = profile.to_canonical(message)
    reference = tags.get(TAG_PRESENTMENT)
    return Presentment(
        purchase=_purchase(message, tags, profile),
        reference=None if reference is None else read_presentment_reference(reference),
        final=read_final(tags.get(TAG_FINAL)),
    )


def read_reversal(
    message: Message,
    _verification: Verification = DEFAULT_VERIFICATION,
    profile: Profile = ISO87_ASCII,
) -> ReversalNotice:
    """The content of an 0400, an 0420 or a repeat of them. It must name its original, in DE90 or by the
    network's id, and its amounts, if present, must be numeric."""
    message, tags = profile.to_canonical(message)
    fields = message.fields
    for number in (3, 4, 49):
        optional_digits(fields, number)
    wire = profile.identity.wire_identity(message, _network_txn_id(tags))
    return ReversalNotice(
        pan=card_number(fields),
        wire=wire,
        references=reversal_references(message, wire, profile.identity),
        remaining_minor=read_replacement_amount(fields[95]) if 95 in fields else None,
        remaining_currency=_currency(fields[49]) if 95 in fields and 49 in fields else None,
    )


_READERS: Final[Mapping[Function, Callable[[Message, Verification, Profile], Content]]] = {
    "authorization": read_authorization,
    "advice": read_advice,
    "presentment": read_presentment,
    "reversal": read_reversal,
}

FUNCTIONS: Final[frozenset[Function]] = frozenset(_READERS)
"""Functions of the messages that ``read`` accepts."""


def _purchase(message: Message, tags: Tags, profile: Profile, *, continues: bool = True) -> Purchase:
    fields = message.fields
    kind = _KINDS.get(digits(fields, 3)[:2])
    if kind is None:
        raise ElementError(3, "is not a processing code of this profile")
    acceptor = read_card_acceptor(present(fields, 43))
    wire = profile.identity.wire_identity(message, _network_txn_id(tags))
    amount_minor, currency, merchant_amount = _amounts(fields)
    return Purchase(
        pan=card_number(fields),
        wire=wire,
        kind=kind,
        amount_minor=amount_minor,
        currency=currency,
        mcc=digits(fields, 18),
        merchant_name=acceptor.name,
        merchant_country=acceptor.country,
        merchant_id=fields.get(42, "").strip() or None,
        references=transaction_references(message, wire, profile.identity) if continues else (),
        merchant_amount=merchant_amount,
    )


def _amounts(fields: Fields) -> tuple[int, str, MerchantAmount | None]:
    """The amount and the currency to decide in, and the merchant amount that they were converted from.

    A message with DE51 states the cardholder's billing amount in DE6. Without it, the amount is DE4.
    """
    amount_minor, currency = int(digits(fields, 4)), digits(fields, 49)
    if 51 not in fields and 6 not in fields:
        return amount_minor, CURRENCY_ALPHA.get(currency, currency), None
    billed_minor, billed_in = int(digits(fields, 6)), digits(fields, 51)
    if billed_in == currency:
        if billed_minor != amount_minor:
            raise ElementError(6, "is not DE4, in the same currency")
        return amount_minor, _currency(currency), None
    if bool(amount_minor) != bool(billed_minor):
        raise ElementError(6, "is zero while DE4 is not, or the reverse")
    if currency not in CURRENCY_BY_NUMERIC:
        raise ElementError(49, "is not a currency of ISO 4217 with 0, 2 or 3 decimals")
    rate = read_rate(fields[10]) if 10 in fields else None
    if 10 in fields and rate is None:
        raise ElementError(10, "is not a conversion rate")
    merchant_amount = MerchantAmount(amount_minor, CURRENCY_BY_NUMERIC[currency], rate)
    return billed_minor, _currency(billed_in), merchant_amount


def _currency(numeric: str) -> str:
    return CURRENCY_ALPHA.get(numeric, numeric)


def _network_txn_id(tags: Tags) -> str | None:
    network_txn_id = tags.get(TAG_NETWORK_TXN_ID)
    if network_txn_id is not None and not network_txn_id.strip():
        raise ElementError(48, "has an empty tag 04")
    return network_txn_id


def _increment(tags: Tags) -> bool:
    operation = tags.get(TAG_OPERATION)
    if operation not in (None, INCREMENT):
        raise ElementError(48, "has an unknown tag 06")
    return operation is not None


def _entry(fields: Fields) -> str:
    return optional_digits(fields, 22)[:2]


def _check_expiry_is_optional(entry: str) -> None:
    """Raise ``ElementError`` if the entry mode carries an expiry. An increment repeats no card data."""
    if ENTRY_CODES.get(entry) in CARRY_EXPIRY:
        raise ElementError(14, "is missing")


def _channel(fields: Fields, entry: str) -> Channel:
    if fields[3][:2] == CASH:
        return "atm"
    channel = CONDITION_CHANNELS.get(fields.get(25, ""))
    return channel or _ENTRY_CHANNELS.get(entry, "pos")


def _partial_cap(value: str | None, purchase: Purchase) -> int | None:
    """The terminal's cap in the currency of the decision. The terminal states it in its own."""
    if value is None:
        return None
    match = _PARTIAL.fullmatch(value)
    if match is None:
        raise ElementError(48, "has a malformed tag 07")
    cap_minor = int(match[1]) if match[1] else None
    if cap_minor is None or purchase.merchant_amount is None:
        return cap_minor
    return billing_cap_minor(cap_minor, purchase.merchant_amount, purchase.amount_minor)
