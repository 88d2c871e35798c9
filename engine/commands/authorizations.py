"""Messages of networks: authorizations and their follow-ups."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.commands.base import CommandBase
from engine.currencies import MerchantAmount

Channel = Literal["pos", "ecommerce", "atm", "moto"]
EntryMode = Literal["contactless", "chip", "magstripe", "manual", "ecommerce", "credential_on_file"]


class WireIdentity(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The fields that identify a message of a network (ISO 8583 data elements in brackets)."""

    acquirer_id: str
    """Acquiring institution (DE32)."""
    stan: str
    """System trace audit number, six digits (DE11)."""
    transmitted_at: str
    """Transmission date and time UTC, MMDDhhmmss (DE7)."""
    rrn: str
    """Retrieval reference number, twelve characters (DE37)."""
    network_txn_id: str | None = None
    """The network transaction id, which all messages of a transaction share (DE48 tag 04)."""
    further: str = ""
    """Values of the further identity fields of the link's profile."""


class Authorize(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="authorize"):
    """Decide one authorization, refund or account verification (0100). ``id`` is the authorization id."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    amount_minor: int
    currency: str
    """Alphabetic code; for a currency in which no card is issued, the numeric code (DE49)."""
    mcc: str
    merchant_name: str
    merchant_country: str
    """ISO 3166-1 alpha-2, from the last two characters of DE43."""
    channel: Channel
    merchant_id: str | None = None
    """The acquirer's id of the merchant without padding (DE42). Commands from before it was recorded have
    none."""
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: EntryMode | None = None
    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    """The terminal's cap on a partial approval (DE48 tag 07), if it sent one."""
    expiry: Literal["absent", "match", "mismatch"] = "absent"
    """Outcome of the edge's comparison of DE14 and of the expiry in DE35 with the card's."""
    cvv2: Literal["absent", "missing", "match", "mismatch"] = "absent"
    """Outcome of the edge's check; the value itself stays at the edge. ``missing``: the message has no CVV2,
    and its entry mode does not say that a terminal read the card."""
    cvv1: Literal["absent", "match", "mismatch"] = "absent"
    """Outcome of the edge's check of service code and CVV1 (or the chip's iCVV) in track 2 (DE35)."""
    pin: Literal["absent", "ignored", "refused", "valid", "invalid"] = "absent"
    """Outcome for the PIN block (DE52); ``ignored`` and ``refused``: the edge could not verify it, and its
    policy says how to go on."""
    chip: Literal["absent", "present", "refused", "valid", "invalid"] = "absent"
    """Outcome for the EMV data (DE55), which are well-formed; ``present`` and ``refused``: the edge could not
    verify the cryptogram."""
    chip_tags: tuple[str, ...] = ()
    """The objects of DE55 as ``TAG=VALUE``, sensitive values masked (``engine.iso8583.emv_tlv.shown``)."""
    address: Literal["absent", "present"] = "absent"
    """Whether the message has a well-formed billing address (DE48 tags 12 and 13); it is not verified."""
    authentication: Literal["absent", "present", "malformed", "valid", "invalid"] = "absent"
    """Outcome of the 3DS check of DE48 tags 02 and 03; ``present`` means well-formed and not verified,
    ``valid`` verified with a key of the programme. Records from before ``present`` and ``malformed`` existed
    have ``valid`` and ``invalid`` for the form."""
    merchant_amount: MerchantAmount | None = None
    """The amount in the merchant's currency if the network converted it; ``amount_minor`` and ``currency``
    are then the billing amount (DE6, DE51)."""
    references: tuple[str, ...] = ()
    """Set on an increment (DE48 tag 06 ``INC``): references of the original, the most specific first.
    ``amount_minor`` is then the additional amount."""
    endpoint_silent: bool = False
    """The programme's endpoint is treated as if it timed out (DE48 tag 99 ``delegated_timeout``, test mode
    only)."""


class Reverse(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="reverse"):
    """Release the held amount of an authorization (0400, 0420). A reversal is never declined."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    """References of the original, the most specific first (``reference_of_*``)."""
    remaining_minor: int | None = None
    """The amount that stays held after a partial reversal (DE95); ``None`` releases the whole amount."""
    remaining_currency: str | None = None
    """The currency of ``remaining_minor`` if the message says it (DE49): the card's, or the merchant's."""
    increment_minor: int | None = None
    """Set when the original is one increment of a larger authorization: the amount to release."""
    late: bool = False
    """Whether an edge reverses an approval that came too late for its network. It is not a reversal by the
    network, whose own approval, reported in an advice, still counts."""


class Present(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="present"):
    """Clear a sale or a refund (0220). A presentment is never declined for funds, controls or the card's
    state.

    ``command_key`` is derived from the ARN and its sequence, so a repeated presentment posts once.
    """

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    kind: Literal["purchase", "refund"]
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None = None
    """As in ``Authorize``."""
    arn: str | None
    """Acquirer reference number (DE48 tag 08)."""
    sequence: int
    """The number of this presentment within its ARN, from 1."""
    final: bool = True
    """Whether this is the last presentment, which releases the rest of the hold (DE48 tag 09)."""
    matched_only: bool = False
    """Whether a sale without an approved authorization is refused: its link may not send force posts."""
    merchant_amount: MerchantAmount | None = None
    """As in ``Authorize``. Its rate may be another one than that of the authorization."""


class Advise(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="advise"):
    """Record a decision that was made elsewhere (0120); the outcome that the merchant saw counts."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    merchant_id: str | None = None
    """As in ``Authorize``."""
    entry_mode: EntryMode | None = None
    approved: bool = True
    """Whether the merchant saw an approval (DE39 of the advice)."""
    approval_code: str | None = None
    """DE38 as the merchant received it."""
    stand_in: bool = False
    """Whether the network decided instead of the issuer, because no answer came in time (DE48 tag 11)."""
    merchant_amount: MerchantAmount | None = None
    """As in ``Authorize``."""
    increment: bool = False
    """Whether the amount is added to that of the authorization, on links that advise increments."""


class Expire(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="expire"):
    """Lapse the hold of one authorization now (test mode), or all expired holds of the account."""

    card_id: str
    tenant_id: str | None = None
    live: bool = False
    references: tuple[str, ...] = ()
    """The authorization whose hold lapses before its expiry; empty lapses all expired holds."""
