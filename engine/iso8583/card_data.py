"""Verification data of card, cardholder and sender: DE14, DE35, DE52, DE55, the address tags of DE48, and the
MACs in DE64 and DE128.

The values stay in the edge. Commands carry only outcomes, and ``ElementError`` contains no values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from engine.iso8583.elements import TAG_ADDRESS_LINE, TAG_POSTAL_CODE, ElementError
from engine.iso8583.emv_tlv import TlvObject, read_chip
from engine.iso8583.reading import Fields, digits
from engine.iso8583.track2 import Track2, read_track_2
from engine.pan import Masked

Treatment = Literal["verify", "refuse", "ignore"]
"""``verify``: a value that cannot be verified, because there is no key for it, is treated as with
``refuse``."""


class Verification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Treatment of verification data: the policy of a profile or of a link."""

    pin: Treatment = "refuse"
    """DE52: ``refuse`` declines the authorization with ``pin_not_supported``."""
    mac: Treatment = "refuse"
    """DE64 and DE128: ``refuse`` makes a message of any class invalid, ``verify`` one without a MAC. The
    connection verifies the value, because a MAC covers the bytes of a message."""
    chip: Treatment = "ignore"
    """DE55: ``refuse`` declines the authorization with ``cryptogram_invalid``; ``ignore`` shows the data in
    the trace as not verified. Malformed data are always refused."""
    expiry: Literal["required", "optional"] = "optional"
    """Whether a message whose entry mode carries an expiry (``CARRY_EXPIRY``) is invalid without one."""


DEFAULT_VERIFICATION: Final = Verification()

CARRY_EXPIRY: Final = frozenset({"chip", "contactless", "magstripe", "manual"})
"""Entry modes in which the terminal reads or asks for the expiry. A merchant that stores a card, in
e-commerce or for later payments, may not have one."""

_MACS: Final = (64, 128)
_PIN_BLOCK: Final = re.compile(r"[0-9A-Fa-f]{16}", re.ASCII)
_POSTAL_CODE: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z -]{0,8}[0-9A-Za-z])?", re.ASCII)
_ADDRESS_LINE: Final = re.compile(r"[!-~](?:[ -~]{0,38}[!-~])?", re.ASCII)


def read_track(fields: Fields, pan: str, entry: str) -> Track2 | None:
    """Track 2, if the message has it. ``entry``: the first two digits of DE22. Raises ``ElementError``."""
    return read_track_2(fields[35], pan, entry) if 35 in fields else None


def read_expiries(fields: Fields, track: Track2 | None) -> tuple[Masked, ...]:
    """Each expiry (YYMM) in DE14 and in ``track``."""
    found: list[Masked] = []
    if 14 in fields:
        found.append(Masked(digits(fields, 14)))
    if track is not None and track.expiry is not None:
        found.append(track.expiry)
    return tuple(found)


def check_expiry(
    presented: Sequence[str], exp_year: int, exp_month: int
) -> Literal["absent", "match", "mismatch"]:
    """Whether every ``presented`` expiry (YYMM) is the card's; ``absent`` for an empty sequence."""
    if not presented:
        return "absent"
    expected = f"{exp_year % 100:02d}{exp_month:02d}"
    return "match" if all(each == expected for each in presented) else "mismatch"


def read_pin(fields: Fields) -> Masked | None:
    """The PIN block: 16 hexadecimal digits. Raises ``ElementError``."""
    if 52 not in fields:
        return None
    if _PIN_BLOCK.fullmatch(fields[52]) is None:
        raise ElementError(52, "is no PIN block")
    return Masked(fields[52])


def read_chip_data(fields: Fields, pan: str) -> tuple[TlvObject, ...]:
    """The objects of DE55; empty if the message has none. Raises ``ElementError``."""
    return read_chip(fields[55], pan) if 55 in fields else ()


def read_address(tags: Mapping[str, str]) -> bool:
    """Whether the message has a billing address (DE48 tags 12 and 13). Raises ``ElementError`` for a
    malformed one."""
    for tag, form in ((TAG_POSTAL_CODE, _POSTAL_CODE), (TAG_ADDRESS_LINE, _ADDRESS_LINE)):
        if tag in tags and form.fullmatch(tags[tag]) is None:
            raise ElementError(48, f"has a malformed tag {tag}")
    return TAG_POSTAL_CODE in tags or TAG_ADDRESS_LINE in tags


def check_mac(fields: Fields, verification: Verification) -> None:
    """Raise ``ElementError`` for a MAC that the policy refuses, and for a missing one that it demands."""
    if verification.mac == "ignore":
        return
    found = [number for number in _MACS if number in fields]
    if verification.mac == "refuse" and found:
        raise ElementError(found[0], "cannot be verified")
    if verification.mac == "verify" and not found:
        raise ElementError(_MACS[0], "is missing")
