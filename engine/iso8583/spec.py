"""The fields of a message, as data: ISO 8583:1987 in all-ASCII, taken from ``pyiso8583``'s ``default_ascii``.

Taking the table from there keeps the profile equal to what peers built on pyiso8583, jPOS
(``ISO87APackager``) and moov (``Spec87ASCII``) speak. This file adds only which fields must never be shown.
Contents are not judged here: the codec knows lengths, ``translate`` knows meanings. A tertiary bitmap
(DE65) is not part of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from iso8583.specs import default_ascii

from engine.pan import Masked, Pan

_TABLE: Final[Mapping[str, Mapping[str, Any]]] = default_ascii

MTI_CHARS: Final = 4
BITMAP_CHARS: Final = 16
"""One bitmap: 64 bits in ASCII hexadecimal."""

FIELD_MAX: Final = 128
BITMAP_FIELDS: Final = frozenset({1, 65})
"""Field numbers that announce further bitmaps and never carry data."""

_TYPES: Final[dict[int, type[str]]] = {2: Pan} | dict.fromkeys(
    (14, 34, 35, 36, 45, 48, 52, 53, 55, 64, 128), Masked
)
"""PAN; expiry, track data, PIN block and its key data, chip data, MACs; DE48 may hold CVV2 and authentication
values."""


class FieldSpec(msgspec.Struct, frozen=True, gc=False):
    """How one field lies on the wire. Sizes are in characters, which are bytes here."""

    number: int
    name: str
    prefix_chars: int
    """Width of the decimal length prefix: 0 (fixed length), 2 or 3."""
    size: int
    """The length of a fixed field, the largest length of a variable one."""
    type: type[str]
    """``str``, or the masking type of a field that must not be shown."""


FIELDS: Final[dict[int, FieldSpec]] = {
    number: FieldSpec(
        number,
        entry["desc"],
        entry["len_type"],
        entry["max_len"],
        _TYPES.get(number, str),
    )
    for number in range(2, FIELD_MAX + 1)
    if number not in BITMAP_FIELDS
    for entry in (_TABLE[str(number)],)
}

assert all(_TABLE[key]["data_enc"] == "ascii" for key in ("t", "p", "1"))
assert all(_TABLE[str(number)]["data_enc"] == "ascii" for number in FIELDS)
assert _TABLE["h"]["max_len"] == 0
