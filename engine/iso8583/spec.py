"""The field table of the profile: ISO 8583:1987 in all-ASCII, from ``default_ascii`` of ``pyiso8583``.

Peers built on pyiso8583, jPOS (``ISO87APackager``) and moov (``Spec87ASCII``) use the same fields. This
module adds which fields must be masked. The codec checks lengths; ``content`` checks values. The profile has
no tertiary bitmap (DE65).
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
"""Fields that are further bitmaps and carry no data."""

_TYPES: Final[dict[int, type[str]]] = {2: Pan} | dict.fromkeys(
    (14, 34, 35, 36, 45, 48, 52, 53, 55, 64, 128), Masked
)
"""Masked fields: PAN, expiry, track data, PIN block and its key data, chip data, MACs, and DE48, which may
hold CVV2 and authentication values."""


class FieldSpec(msgspec.Struct, frozen=True, gc=False):
    """Wire format of one field. Sizes are in characters, which are bytes in ASCII."""

    number: int
    name: str
    prefix_chars: int
    """Width of the decimal length prefix: 0 (fixed length), 2 or 3."""
    size: int
    """Length of a fixed field, maximum length of a variable field."""
    type: type[str]
    """``str``, or the masking type of a sensitive field."""


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
