"""Requests of a network, as this platform understands them: message in, command out.

Two steps, because between them somebody has to look outside: ``read_authorization`` says what the message
holds (or which field makes it unreadable), the edge finds the card and checks the secrets, and
``to_command`` puts both together. Anything that is missing or malformed is an ``ElementError``, which
becomes DE39 = 30; nothing is guessed. Fields that this profile does not know are carried, hashed into the
fingerprint and otherwise ignored.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from engine.commands import Authorize, Channel, EntryMode, WireIdentity
from engine.iso8583.elements import (
    TAG_AUTHENTICATION,
    TAG_CVV2,
    TAG_MIT,
    TAG_NETWORK_TXN_ID,
    TAG_OPERATION,
    TAG_PARTIAL,
    TAG_SCENARIO,
    TAG_THREEDS_REFERENCE,
    ElementError,
    read_card_acceptor,
    read_private,
)
from engine.iso8583.message import Message
from engine.money import CURRENCY_ALPHA
from engine.pan import Masked, Pan

KEY_BYTES: Final = 16

PURCHASE: Final = "00"
CASH: Final = "01"
REFUND: Final = "20"
_KINDS: Final[dict[str, Literal["purchase", "refund"]]] = {
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
"""First two digits of DE22; other codes leave the entry mode open."""

CONDITION_CHANNELS: Final[dict[str, Channel]] = {
    "05": "pos",  # cardholder present, card not present
    "08": "moto",
    "59": "ecommerce",
    "71": "pos",  # card present, keyed in
}
"""Codes of DE25 that settle the channel by themselves; the others leave it to DE22."""

_ENTRY_CHANNELS: Final[dict[str, Channel]] = {"01": "moto", "10": "ecommerce", "81": "ecommerce"}

_TRANSMITTED = re.compile(
    r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])(?:[0-5]\d){2}", re.ASCII
)
_PARTIAL = re.compile(r"[1Y]?(\d{12})?", re.ASCII)


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """What an 0100 or 0101 says. Secrets are masked by their type."""

    pan: Pan
    wire: WireIdentity
    amount_minor: int
    currency: str
    """Alphabetic code, or the numeric one of DE49 when it is none that can be issued."""
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    kind: Literal["purchase", "refund"]
    entry_mode: EntryMode | None
    mit: bool
    partial_allowed: bool
    partial_cap_minor: int | None
    expiry: Masked | None
    """DE14, YYMM."""
    cvv2: Masked | None
    auth_value: Masked | None
    threeds_ref: str | None
    operation: str | None
    """``INC`` for an increment (DE48 tag 06)."""
    scenario: str | None
    """Test mode only (DE48 tag 99)."""


def read_authorization(message: Message) -> AuthorizationRequest:
    """The content of an 0100 or 0101; ``ElementError`` names the first field that is missing or malformed."""
    fields = message.fields
    processing = _digits(fields, 3)[:2]
    kind = _KINDS.get(processing)
    if kind is None:
        raise ElementError(3, "is no processing code of this profile")
    tags = read_private(fields[48]) if 48 in fields else {}
    acceptor = read_card_acceptor(_present(fields, 43))
    currency = _digits(fields, 49)
    entry = _optional_digits(fields, 22)[:2]
    cap = _partial_cap(tags.get(TAG_PARTIAL))
    return AuthorizationRequest(
        pan=_pan(fields),
        wire=wire_identity(message, tags.get(TAG_NETWORK_TXN_ID)),
        amount_minor=int(_digits(fields, 4)),
        currency=CURRENCY_ALPHA.get(currency, currency),
        mcc=_digits(fields, 18),
        merchant_name=acceptor.name,
        merchant_country=acceptor.country,
        channel=_channel(processing, entry, fields.get(25)),
        kind=kind,
        entry_mode=ENTRY_CODES.get(entry),
        mit=TAG_MIT in tags or entry == "10",
        partial_allowed=TAG_PARTIAL in tags,
        partial_cap_minor=cap,
        expiry=_masked(fields.get(14)),
        cvv2=_masked(tags.get(TAG_CVV2)),
        auth_value=_masked(tags.get(TAG_AUTHENTICATION)),
        threeds_ref=tags.get(TAG_THREEDS_REFERENCE),
        operation=tags.get(TAG_OPERATION),
        scenario=tags.get(TAG_SCENARIO),
    )


def to_command(
    request: AuthorizationRequest,
    *,
    authorization_id: str,
    card_id: str,
    fingerprint: bytes,
    cvv2: Literal["absent", "match", "mismatch"],
    authentication: Literal["absent", "valid", "invalid"],
) -> Authorize:
    """The command for the owner of ``card_id``; a repeat gives the same ``command_key`` and
    ``fingerprint``."""
    return Authorize(
        id=authorization_id,
        command_key=command_key(request.wire, "authorization"),
        card_id=card_id,
        fingerprint=fingerprint,
        wire=request.wire,
        amount_minor=request.amount_minor,
        currency=request.currency,
        mcc=request.mcc,
        merchant_name=request.merchant_name,
        merchant_country=request.merchant_country,
        channel=request.channel,
        kind=request.kind,
        entry_mode=request.entry_mode,
        mit=request.mit,
        partial_allowed=request.partial_allowed,
        partial_cap_minor=request.partial_cap_minor,
        cvv2=cvv2,
        authentication=authentication,
    )


def wire_identity(message: Message, network_txn_id: str | None = None) -> WireIdentity:
    """How the network names ``message``: DE32, DE11, DE7 and DE37, all mandatory."""
    fields = message.fields
    transmitted_at = _present(fields, 7)
    if _TRANSMITTED.fullmatch(transmitted_at) is None:
        raise ElementError(7, "is no month, day and time")
    return WireIdentity(
        _digits(fields, 32), _digits(fields, 11), transmitted_at, _present(fields, 37), network_txn_id
    )


def command_key(wire: WireIdentity, domain: str) -> bytes:
    """Sixteen bytes that name the one execution of this message; ``domain`` keeps kinds of messages apart.

    The network's transaction id is left out: it names the whole life of a transaction, not one message.
    """
    # All parts but the last have a fixed length, so no two identities run together.
    identity = f"{domain}|{wire.stan}{wire.transmitted_at}{wire.rrn}{wire.acquirer_id}"
    return blake2b(identity.encode("ascii"), digest_size=KEY_BYTES).digest()


def fingerprint(message: Message, key: bytes) -> bytes:
    """Sixteen bytes that are equal for a message and its honest repeats: over everything but the MTI's
    repeat digit.

    Keyed (``key`` of 16 to 64 bytes), because card numbers and CVV2 values are short enough to be guessed
    behind a plain hash.
    """
    fields = message.fields
    # Values are printable, so the separator cannot occur in them; joining uses the characters behind a mask.
    parts = [message.mti[:3]]
    for number in sorted(fields):
        parts += (str(number), fields[number])
    return blake2b("\x1f".join(parts).encode("ascii"), digest_size=KEY_BYTES, key=key).digest()


def _channel(processing: str, entry: str, condition: str | None) -> Channel:
    if processing == CASH:
        return "atm"
    settled = CONDITION_CHANNELS.get(condition) if condition else None
    return settled or _ENTRY_CHANNELS.get(entry, "pos")


def _pan(fields: dict[int, str]) -> Pan:
    pan = _digits(fields, 2)
    if not 12 <= len(pan) <= 19:
        raise ElementError(2, "has not 12 to 19 digits")
    return Pan(pan)


def _partial_cap(value: str | None) -> int | None:
    match = _PARTIAL.fullmatch(value or "")
    if match is None:
        raise ElementError(48, "has a malformed tag 07")
    return int(match[1]) if match[1] else None


def _masked(value: str | None) -> Masked | None:
    return None if value is None else Masked(value)


def _present(fields: dict[int, str], number: int) -> str:
    value = fields.get(number)
    if value is None or not value.strip():
        raise ElementError(number, "is missing")
    return value


def _digits(fields: dict[int, str], number: int) -> str:
    value = _present(fields, number)
    if not value.isdecimal():
        raise ElementError(number, "is not numeric")
    return value


def _optional_digits(fields: dict[int, str], number: int) -> str:
    return _digits(fields, number) if number in fields else ""
