"""The content of financial requests: what a network asks or reports, in values of the field.

``content_reader`` makes them from messages. ``translate`` makes commands from them.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.commands import Channel, EntryMode, WireIdentity
from engine.currencies import MerchantAmount
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.emv_tlv import TlvObject
from engine.iso8583.track2 import Track2
from engine.pan import Masked, Pan

Kind = Literal["purchase", "refund"]

PURCHASE: Final = "00"
CASH: Final = "01"
REFUND: Final = "20"


class Purchase(msgspec.Struct, frozen=True):
    """The common content of authorizations, advices and presentments: amount and merchant."""

    pan: Pan
    wire: WireIdentity
    kind: Kind
    amount_minor: int
    """In the currency in which the issuer decides."""
    currency: str
    """Alphabetic code; the numeric code of DE49 if cards in that currency cannot be issued."""
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None
    """The card acceptor's id without padding (DE42)."""
    references: tuple[str, ...]
    """References to the transaction that this message continues, if any."""
    merchant_amount: MerchantAmount | None = None
    """DE4, DE49 and DE10 if the network converted them; ``amount_minor`` and ``currency`` are then DE6 and
    DE51."""


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
    increment: bool = False
    """Whether the amount is added to the authorized amount."""

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
    remaining_currency: str | None = None


Content = AuthorizationRequest | Advice | Presentment | ReversalNotice
