"""Reads the content of financial requests.

A missing or malformed field raises ``ElementError``, which becomes DE39 = 30; no value is guessed. The policy
(``Verification``) decides about MACs and missing expiries; ``cryptography`` and the card's owner decide about
the other verification data. Other fields are part of the fingerprint and otherwise ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from engine.commands import Channel, EntryMode, WireIdentity
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
    PresentmentReference,
    read_card_acceptor,
    read_final,
    read_presentment_reference,
    read_private,
    read_replacement_amount,
)
from engine.iso8583.emv_tlv import TlvObject
from engine.iso8583.identity import reversal_references, transaction_references, wire_identity
from engine.iso8583.message import Message
from engine.iso8583.reading import Fields, card_number, digits, masked, optional_digits, present
from engine.iso8583.track2 import Track2
from engine.money import CURRENCY_ALPHA
from engine.pan import Masked, Pan

Kind = Literal["purchase", "refund"]
Tags = Mapping[str, str]

PURCHASE: Final = "00"
CASH: Final = "01"
REFUND: Final = "20"
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


class Purchase(msgspec.Struct, frozen=True):
    """The common content of authorizations, advices and presentments: amount and merchant."""

    pan: Pan
    wire: WireIdentity
    kind: Kind
    amount_minor: int
    currency: str
    """Alphabetic code; the numeric code of DE49 if cards in that currency cannot be issued."""
    mcc: str
    merchant_name: str
    merchant_country: str
    references: tuple[str, ...]
    """References to the transaction that this message continues, if any."""


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """Content of an 0100 or 0101. Secrets are masked by their type."""

    purchase: Purchase
    channel: Channel
    entry_mode: EntryMode | None
    mit: bool
    partial_allowed: bool
    partial_cap_minor: int | None
    expiries: tuple[Masked, ...]
    """YYMM of DE14 and of DE35; empty if both are absent."""
    track: Track2 | None
    pin: Masked | None
    """DE52, 16 hexadecimal digits."""
    chip: tuple[TlvObject, ...]
    """The objects of DE55; empty if it is absent."""
    address: bool
    """Whether the message has a billing address (DE48 tags 12 and 13)."""
    cvv2: Masked | None
    auth_value: Masked | None
    threeds_ref: str | None
    scenario: str | None
    """Test mode only (DE48 tag 99)."""

    @property
    def pan(self) -> Pan:
        """DE2."""
        return self.purchase.pan


class Advice(msgspec.Struct, frozen=True):
    """Content of an 0120 or 0121: a purchase that the network decided."""

    purchase: Purchase
    channel: Channel
    entry_mode: EntryMode | None
    approved: bool
    approval_code: str | None
    """DE38, assigned by the network."""
    stand_in: bool

    @property
    def pan(self) -> Pan:
        """DE2."""
        return self.purchase.pan


class Presentment(msgspec.Struct, frozen=True):
    """Content of an 0220 or 0221."""

    purchase: Purchase
    reference: PresentmentReference | None
    final: bool

    @property
    def pan(self) -> Pan:
        """DE2."""
        return self.purchase.pan


class ReversalNotice(msgspec.Struct, frozen=True):
    """Content of an 0400, an 0420 or a repeat of them."""

    pan: Pan
    wire: WireIdentity
    references: tuple[str, ...]
    remaining_minor: int | None


Content = AuthorizationRequest | Advice | Presentment | ReversalNotice


def read(message: Message, verification: Verification = DEFAULT_VERIFICATION) -> Content:
    """The content of a financial request. Raises ``ElementError`` for the first field that is missing or
    malformed or is a MAC that cannot be verified, ``KeyError`` for a function that is not in
    ``FUNCTIONS``."""
    check_mac(message.fields, verification)
    if message.mti[:3] == "010":
        return read_authorization(message, verification)
    return _READERS[message.mti[:3]](message)


def read_authorization(
    message: Message, verification: Verification = DEFAULT_VERIFICATION
) -> AuthorizationRequest:
    """The content of an 0100 or 0101."""
    fields, tags = message.fields, _tags(message.fields)
    increment = _increment(tags)
    purchase = _purchase(message, tags, continues=increment)
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
        partial_cap_minor=_partial_cap(tags.get(TAG_PARTIAL)),
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


def read_advice(message: Message) -> Advice:
    """The content of an 0120 or 0121. Without DE39 it reports an approval. Its amount is the final one, so it
    cannot be an increment. A refund has no hold to correct, so it cannot be advised."""
    fields, tags = message.fields, _tags(message.fields)
    purchase = _purchase(message, tags)
    if purchase.kind == "refund":
        raise ElementError(3, "is a refund, which is presented and not advised")
    if _increment(tags):
        raise ElementError(48, "advises an increment")
    entry = _entry(fields)
    return Advice(
        purchase=purchase,
        channel=_channel(fields, entry),
        entry_mode=ENTRY_CODES.get(entry),
        approved=fields.get(39, APPROVED) in (APPROVED, APPROVED_PARTIALLY, VERIFIED),
        approval_code=fields.get(38, "").strip() or None,
        stand_in=TAG_STAND_IN in tags,
    )


def read_presentment(message: Message) -> Presentment:
    """The content of an 0220 or 0221."""
    tags = _tags(message.fields)
    reference = tags.get(TAG_PRESENTMENT)
    return Presentment(
        purchase=_purchase(message, tags),
        reference=None if reference is None else read_presentment_reference(reference),
        final=read_final(tags.get(TAG_FINAL)),
    )


def read_reversal(message: Message) -> ReversalNotice:
    """The content of an 0400, an 0420 or a repeat of them. It must name its original, in DE90 or by the
    network's id, and its amounts, if present, must be numeric."""
    fields, tags = message.fields, _tags(message.fields)
    for number in (3, 4, 49):
        optional_digits(fields, number)
    wire = wire_identity(message, _network_txn_id(tags))
    return ReversalNotice(
        pan=card_number(fields),
        wire=wire,
        references=reversal_references(message, wire),
        remaining_minor=read_replacement_amount(fields[95]) if 95 in fields else None,
    )


_READERS: Final[dict[str, Callable[[Message], Content]]] = {
    "010": read_authorization,
    "012": read_advice,
    "022": read_presentment,
    "040": read_reversal,
    "042": read_reversal,
}

FUNCTIONS: Final = frozenset(_READERS)
"""First three digits of the MTIs that ``read`` accepts."""


def _purchase(message: Message, tags: Tags, *, continues: bool = True) -> Purchase:
    fields = message.fields
    kind = _KINDS.get(digits(fields, 3)[:2])
    if kind is None:
        raise ElementError(3, "is not a processing code of this profile")
    acceptor = read_card_acceptor(present(fields, 43))
    currency = digits(fields, 49)
    wire = wire_identity(message, _network_txn_id(tags))
    return Purchase(
        pan=card_number(fields),
        wire=wire,
        kind=kind,
        amount_minor=int(digits(fields, 4)),
        currency=CURRENCY_ALPHA.get(currency, currency),
        mcc=digits(fields, 18),
        merchant_name=acceptor.name,
        merchant_country=acceptor.country,
        references=transaction_references(message, wire) if continues else (),
    )


def _tags(fields: Fields) -> Tags:
    return read_private(fields[48]) if 48 in fields else {}


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


def _partial_cap(value: str | None) -> int | None:
    if value is None:
        return None
    match = _PARTIAL.fullmatch(value)
    if match is None:
        raise ElementError(48, "has a malformed tag 07")
    return int(match[1]) if match[1] else None
