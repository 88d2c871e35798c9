"""EMV data (DE55): BER-TLV objects in hexadecimal digits (EMV book 3, annex B; ISO/IEC 8825-1).

``read_chip`` returns the primitive objects, ``shown`` their form in a decision's trace: values of objects
that identify neither card nor cardholder, and masks for all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from engine.iso8583.elements import ElementError
from engine.pan import Masked

MASK: Final = "****"

_SHOWN: Final[dict[str, tuple[int, int]]] = {
    "82": (2, 2),  # application interchange profile
    "84": (5, 16),  # dedicated file name
    "95": (5, 5),  # terminal verification results
    "9A": (3, 3),  # transaction date
    "9B": (2, 2),  # transaction status information
    "9C": (1, 1),  # transaction type
    "5F2A": (2, 2),  # transaction currency
    "5F34": (1, 1),  # sequence number of the card
    "9F02": (6, 6),  # amount
    "9F03": (6, 6),  # other amount
    "9F06": (5, 16),  # application id of the terminal
    "9F09": (2, 2),  # application version
    "9F10": (1, 32),  # issuer application data: version and verification results
    "9F1A": (2, 2),  # country of the terminal
    "9F27": (1, 1),  # cryptogram information
    "9F33": (3, 3),  # terminal capabilities
    "9F34": (3, 3),  # cardholder verification method
    "9F35": (1, 1),  # terminal type
    "9F36": (2, 2),  # application transaction counter
    "9F37": (4, 4),  # unpredictable number
    "9F41": (2, 4),  # sequence counter of the terminal
}
"""Tags whose values a trace shows, with the least and the greatest length in bytes (EMV book 3, annex A).
Every other value is masked: numbers, tracks, names, PIN data, cryptograms and all tags that are not known
here."""

_TRACK_2: Final = "57"
_NUMBER: Final = "5A"
_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+", re.ASCII)
_CONSTRUCTED: Final = 0x20
_MULTIPLE_BYTES: Final = 0x1F
"""Low bits of a first tag byte that is followed by further tag bytes."""
_FOLLOWS: Final = 0x80
_TAG_BYTES_MAX: Final = 4
_LENGTH_BYTES_MAX: Final = 2
_DEPTH_MAX: Final = 8


class TlvObject(msgspec.Struct, frozen=True, gc=False):
    """A primitive object. Its ``repr`` shows no value."""

    tag: str
    """Upper-case hexadecimal digits."""
    value: Masked
    """Upper-case hexadecimal digits."""


def read_chip(text: str, pan: str) -> tuple[TlvObject, ...]:
    """The primitive objects of a DE55, those of templates included, in their order. Raises ``ElementError``
    if it is malformed, repeats a tag, or names another card than ``pan``."""
    if _HEXADECIMAL.fullmatch(text) is None:
        raise ElementError(55, "is not hexadecimal")
    objects = tuple(_objects(bytes.fromhex(text), _DEPTH_MAX))
    if len({each.tag for each in objects}) != len(objects):
        raise ElementError(55, "repeats a tag")
    for each in objects:
        if not _names(each, pan):
            raise ElementError(55, "names another card than DE2")
    return objects


def write_chip(objects: Iterable[tuple[str, str]]) -> Masked:
    """A DE55 of primitive objects: tag and value in hexadecimal digits; values of up to 127 bytes."""
    return Masked("".join(f"{tag}{len(value) // 2:02X}{value}" for tag, value in objects))


def shown(objects: Sequence[TlvObject], pan: str) -> tuple[str, ...]:
    """``TAG=VALUE`` of each object; the value is ``****`` unless the object is known to be harmless. ``pan``:
    the card number, which is masked wherever it stands."""
    return tuple(f"{each.tag}={each.value[:] if _harmless(each, pan) else MASK}" for each in objects)


def _harmless(each: TlvObject, pan: str) -> bool:
    least, greatest = _SHOWN.get(each.tag, (1, 0))
    if not least <= len(each.value) // 2 <= greatest:
        return False
    number = pan[:]
    return number not in each.value and number.encode("ascii") not in bytes.fromhex(each.value[:])


def _names(each: TlvObject, pan: str) -> bool:
    """Whether ``each`` names the card ``pan``, if it names one. Numbers are padded with F, and in track 2 a D
    ends them."""
    if each.tag == _NUMBER:
        return each.value[:].rstrip("F") == pan[:]
    return each.tag != _TRACK_2 or each.value[:].partition("D")[0] == pan[:]


def _objects(data: bytes, depth: int) -> Iterator[TlvObject]:
    if not depth:
        raise ElementError(55, "is nested too deeply")
    at = 0
    while at < len(data):
        if not data[at]:
            at += 1  # filler between objects
            continue
        start, at = at, _after_tag(data, at)
        tag = data[start:at]
        length, at = _length(data, at)
        value = data[at : at + length]
        if len(value) < length:
            raise ElementError(55, "is cut short in a value")
        if tag[0] & _CONSTRUCTED:
            yield from _objects(value, depth - 1)
        else:
            yield TlvObject(tag.hex().upper(), Masked(value.hex().upper()))
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
