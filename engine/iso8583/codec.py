"""Codecs: bytes of a message to ``Message`` and back.

A profile has one of two codecs: ``TextCodec`` for messages that are ASCII throughout, and ``MixedCodec`` for
every other combination of encodings. Values are printable ASCII text inside; bytes are hexadecimal digits in
upper case. PostgreSQL refuses NUL characters in text, so both codecs refuse unprintable characters. Errors
contain field and position, no values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, Protocol

import msgspec

from engine.iso8583.formats import Counting, Encoding, FieldFormat, LengthEncoding
from engine.iso8583.message import Message
from engine.pan import Masked, Pan

MTI_CHARS: Final = 4
BITMAP_FIELDS: Final = 64
"""Fields that one bitmap announces; the first bit of a bitmap announces the next one."""
UNPRINTABLE: Final = re.compile(r"[^ -~]")


class DecodeError(ValueError):
    """The bytes are not a message. ``read``: the fields before ``position``, if the MTI was readable."""

    def __init__(self, field: str, position: int, problem: str, read: Message | None) -> None:
        super().__init__(f"{field} at {position}: {problem}")
        self.field = field
        self.position = position
        self.problem = problem
        self.read = read


class EncodeError(ValueError):
    """The profile cannot carry this message."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Codec(Protocol):
    """Encodes and decodes the messages of one profile, without their message header."""

    def decode(self, payload: bytes) -> Message:
        """The message in ``payload``. Raises ``DecodeError``."""

    def encode(self, message: Message) -> bytes:
        """The bytes of ``message``. Further bitmaps are added only if a field needs them. Raises
        ``EncodeError``."""

    def encode_mti(self, mti: str) -> bytes:
        """The bytes of a message type indicator."""


Text = Literal["ascii", "cp037", "cp1148"]
Digits = Literal["text", "bcd-right", "bcd-left"]
Bytes = Literal["hex", "raw"]


class Encodings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a profile writes the kinds of data, unless an element has an encoding of its own."""

    text: Text = "ascii"
    digits: Digits = "text"
    """Elements of digits and tracks, and the MTI. ``bcd-right``: an odd number of digits has a leading zero
    nibble; ``bcd-left``: a trailing one."""
    bytes: Bytes = "hex"
    lengths: LengthEncoding = "text"
    counts: Counting = "digits"
    """Unit of the length prefix of BCD digits."""
    bitmap: Bytes = "hex"
    bitmaps: Literal[1, 2, 3] = 2
    """Number of bitmaps that a message may have; with 3, fields 129 to 192 can be announced."""

    @property
    def field_max(self) -> int:
        """The highest field that a bitmap can announce."""
        return BITMAP_FIELDS * self.bitmaps

    @property
    def is_ascii(self) -> bool:
        """Whether every element without an encoding of its own is ASCII."""
        return (self.text, self.digits, self.bytes, self.lengths, self.bitmap, self.bitmaps) == (
            "ascii",
            "text",
            "hex",
            "text",
            "hex",
            2,
        )


def encoding_of(field: FieldFormat, encodings: Encodings) -> Encoding:
    """The encoding of the values of ``field``."""
    if field.encoding is not None:
        return field.encoding
    if field.kind == "b":
        return encodings.bytes
    if field.kind == "text" or encodings.digits == "text":
        return encodings.text
    return encodings.digits


def type_of(field: FieldFormat) -> type[str] | None:
    """The masking type of ``field``, if it has one."""
    if field.number == 2:
        return Pan
    return Masked if field.secret else None


Table = Mapping[int, FieldFormat]


def is_text_profile(table: Table, encodings: Encodings) -> bool:
    """Whether a profile is ASCII throughout."""
    return encodings.is_ascii and all(
        encoding_of(field, encodings) in ("ascii", "hex") and field.length_encoding in (None, "text")
        for field in table.values()
    )


def text_size(field: FieldFormat) -> int:
    """The characters of a fixed value of ``field`` inside, or their maximum: bytes have two digits each."""
    return 2 * field.size if field.kind == "b" else field.size


def announced_fields(bits: int, table: Table, field_max: int) -> list[FieldFormat]:
    """The fields in the bitmaps ``bits``, ascending. Raises ``ValueError`` for a field that is not in the
    profile."""
    numbers = [
        number
        for number in range(2, field_max + 1)
        if bits >> (field_max - number) & 1 and not (number == 65 and field_max > 128)
    ]
    unknown = [number for number in numbers if number not in table]
    if unknown:
        raise ValueError(f"announces DE{unknown[0]}, which is not in the profile")
    return [table[number] for number in numbers]


def formats_of(numbers: tuple[int, ...], table: Table) -> list[FieldFormat]:
    """The formats of ``numbers``. Raises ``EncodeError`` for a field that is not in the profile."""
    for number in numbers:
        if number not in table:
            raise EncodeError(f"DE{number}", "is not in the profile")
    return [table[number] for number in numbers]


def is_mti(mti: str) -> bool:
    """Whether ``mti`` is four ASCII digits."""
    return len(mti) == MTI_CHARS and mti.isascii() and mti.isdecimal()
