"""Verification data of card, cardholder and sender: DE14, DE35, DE52, DE55 and the MACs in DE64 and DE128.

The values stay in the edge. Commands carry only outcomes, and ``ElementError`` contains no values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from engine.iso8583.elements import ElementError
from engine.iso8583.reading import Fields, digits
from engine.pan import Masked

Treatment = Literal["refuse", "ignore"]


class Verification(msgspec.Struct, frozen=True):
    """Treatment of verification data for which the edge has no keys."""

    pin: Treatment = "refuse"
    """DE52: ``refuse`` declines the authorization with ``pin_not_supported``."""
    mac: Treatment = "refuse"
    """DE64 and DE128: ``refuse`` makes a message of any class invalid."""


DEFAULT_VERIFICATION: Final = Verification()

_MACS: Final = (64, 128)
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_TRACK_2: Final = re.compile(r"(?P<pan>\d{12,19})[=D](?:(?P<expiry>\d{4})|[=D])(?:\d{3}|[=D])\d*F?", re.ASCII)
"""ISO/IEC 7813 without sentinels: number, separator, expiry, service code, discretionary data. A separator
replaces an expiry or a service code that the card does not have."""

_CONSTRUCTED: Final = 0x20
_MULTIPLE_BYTES: Final = 0x1F
"""Low bits of a first tag byte that is followed by further tag bytes."""
_FOLLOWS: Final = 0x80
_TAG_BYTES_MAX: Final = 4
_LENGTH_BYTES_MAX: Final = 2
_DEPTH_MAX: Final = 8


def read_expiries(fields: Fields, pan: str) -> tuple[Masked, ...]:
    """Each expiry (YYMM) in DE14 and DE35. Raises ``ElementError`` if DE35 is malformed or contains another
    number than ``pan``."""
    found: list[Masked] = []
    if 14 in fields:
        found.append(Masked(digits(fields, 14)))
    if 35 in fields:
        track = _TRACK_2.fullmatch(fields[35])
        if track is None:
            raise ElementError(35, "is no track 2")
        if track["pan"] != pan:
            raise ElementError(35, "names another card than DE2")
        if track["expiry"] is not None:
            found.append(Masked(track["expiry"]))
    return tuple(found)


def check_expiry(
    presented: Sequence[str], exp_year: int, exp_month: int
) -> Literal["absent", "match", "mismatch"]:
    """Whether every ``presented`` expiry (YYMM) is the card's; ``absent`` for an empty sequence."""
    if not presented:
        return "absent"
    expected = f"{exp_year % 100:02d}{exp_month:02d}"
    return "match" if all(each == expected for each in presented) else "mismatch"


def read_pin(fields: Fields, verification: Verification) -> Literal["absent", "ignored", "refused"]:
    """Whether the message has a PIN block, and how the profile treats it."""
    if 52 not in fields:
        return "absent"
    if _HEXADECIMAL.fullmatch(fields[52]) is None:
        raise ElementError(52, "is no PIN block")
    return "refused" if verification.pin == "refuse" else "ignored"


def check_mac(fields: Fields, verification: Verification) -> None:
    """Raise ``ElementError`` for a MAC that the profile refuses."""
    if verification.mac == "ignore":
        return
    for number in _MACS:
        if number in fields:
            raise ElementError(number, "cannot be verified")


def read_chip(fields: Fields) -> Literal["absent", "present"]:
    """Whether the message has EMV data. Raises ``ElementError`` unless they are BER-TLV in hexadecimal
    digits."""
    if 55 not in fields:
        return "absent"
    text = fields[55]
    if len(text) % 2 or _HEXADECIMAL.fullmatch(text) is None:
        raise ElementError(55, "is not hexadecimal")
    _check_tlv(bytes.fromhex(text), _DEPTH_MAX)
    return "present"


def _check_tlv(data: bytes, depth: int) -> None:
    """Raise ``ElementError`` unless ``data``, including its templates, is a sequence of BER-TLV objects."""
    if not depth:
        raise ElementError(55, "is nested too deeply")
    at = 0
    while at < len(data):
        constructed = data[at] & _CONSTRUCTED
        at = _after_tag(data, at)
        length, at = _length(data, at)
        if at + length > len(data):
            raise ElementError(55, "is cut short in a value")
        if constructed:
            _check_tlv(data[at : at + length], depth - 1)
        at += length


def _after_tag(data: bytes, at: int) -> int:
    stop = at + 1
    if data[at] & _MULTIPLE_BYTES == _MULTIPLE_BYTES:
        while stop < len(data) and data[stop] & _FOLLOWS:
            stop += 1
        stop += 1
    if stop > len(data) or stop - at > _TAG_BYTES_MAX:
        raise ElementError(55, "is cut short in a tag")
    return stop


def _length(data: bytes, at: int) -> tuple[int, int]:
    """The length at ``at`` and the position after it."""
    if at >= len(data):
        raise ElementError(55, "is cut short in a length")
    first = data[at]
    if first < _FOLLOWS:
        return first, at + 1
    count = first - _FOLLOWS
    stop = at + 1 + count
    if not 1 <= count <= _LENGTH_BYTES_MAX or stop > len(data):
        raise ElementError(55, "has a malformed length")
    return int.from_bytes(data[at + 1 : stop], "big"), stop
