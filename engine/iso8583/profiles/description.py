"""A profile as data: the structure of a profile file, with the defaults of its sections.

``merged`` puts the sections of a file over those of the profile that it is based on. The docstrings of the
members are the reference for ``ops/docs/WIRE.md``, "Writing a profile".
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.iso8583.card_data import Treatment
from engine.iso8583.codec import Encodings
from engine.iso8583.formats import Counting, Encoding, LengthEncoding
from engine.iso8583.framing import LengthKind
from engine.iso8583.message_types import Function, Version
from engine.iso8583.private_data import Place, TlvFormat
from engine.iso8583.profile import Increments

ABSENT: Final = "absent"
"""Format of an element that a profile does not have."""


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[frame]``: how a frame announces its length."""

    length: LengthKind = "binary-2"
    length_at: int = 0
    """``in-header`` only: position of the length in the message header."""
    length_bytes: int = 2
    counts_header: bool = True
    """``in-header`` only: whether the length includes the header."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[header]``: bytes before the MTI."""

    value: str = ""
    """The header of messages that this side starts, in hexadecimal. Its size is that of every header."""
    swaps: tuple[tuple[int, int, int], ...] = ()
    """Ids that an answer exchanges: the positions of both and their size."""


class CardDataPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[verification]``: the treatment of card data that a message presents."""

    pin: Treatment = "refuse"
    """DE52. ``verify`` needs keys; without them it counts as ``refuse``."""
    chip: Treatment = "ignore"
    """DE55, as for ``pin``. ``ignore`` shows the data in the trace as not verified."""
    mac: Literal["refuse", "ignore"] = "refuse"
    """DE64 and DE128 on a link without a MAC key. A link with one verifies them."""
    expiry: Literal["required", "optional"] = "optional"
    """Whether a message whose entry mode carries an expiry is invalid without one."""


class Element(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[elements.N]``: what differs from the element N of the version."""

    format: str | None = None
    """The notation of ISO 8583 (``ans...99``), or ``absent``."""
    encoding: Encoding | None = None
    length: LengthEncoding | None = None
    counts: Counting | None = None
    secret: bool | None = None
    """Whether its value is masked. The usual secrets are masked already."""


class Codes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[response_codes]``: DE39."""

    reasons: dict[str, str] = {}
    """The code for a decline reason."""
    codes: dict[str, str] = {}
    """The code in place of one of the engine's."""
    accepted: dict[Function, str] = {}
    """The code for ``00`` of a function."""


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A profile file."""

    name: str
    based_on: str | None = None
    """A shipped profile. Sections that are absent are taken from it."""
    version: Version | None = None
    frame: Frame | None = None
    header: Header | None = None
    encodings: Encodings | None = None
    elements: dict[str, Element] = {}
    messages: dict[Function, tuple[str, ...]] | None = None
    """Original MTIs of each function."""
    private: dict[str, Place] | None = None
    """The place of each fact; absent: tags in DE48."""
    tlv: dict[str, TlvFormat] = {}
    response_codes: Codes | None = None
    identity: tuple[int, ...] | None = None
    increments: Increments | None = None
    verification: CardDataPolicy | None = None
    echo: tuple[int, ...] | None = None


SectionName = Literal[
    "version",
    "frame",
    "header",
    "encodings",
    "messages",
    "private",
    "response_codes",
    "identity",
    "increments",
    "verification",
    "echo",
]
_SECTIONS: Final[tuple[SectionName, ...]] = (
    "version",
    "frame",
    "header",
    "encodings",
    "messages",
    "private",
    "response_codes",
    "identity",
    "increments",
    "verification",
    "echo",
)


def merged(base: Description, over: Description) -> Description:
    """``over``, with the sections that it does not have from ``base``. Elements and TLV formats are merged
    one by one."""
    inherited = {name: getattr(base, name) for name in _SECTIONS if getattr(over, name) is None}
    return msgspec.structs.replace(
        over,
        elements={**base.elements, **over.elements},
        tlv={**base.tlv, **over.tlv},
        **inherited,
    )
