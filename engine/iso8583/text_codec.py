"""Codec of messages in ASCII: text, digits and hexadecimal bitmaps.

``pyiso8583`` interprets its specification for each field of each message. This codec caches the layout of
each bitmap, which makes it several times faster; ``tests/engine/iso8583/test_text_codec.py`` compares both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from engine.iso8583.codec import (
    BITMAP_FIELDS,
    MTI_CHARS,
    UNPRINTABLE,
    DecodeError,
    EncodeError,
    Table,
    announced_fields,
    formats_of,
    is_mti,
    text_size,
    type_of,
)
from engine.iso8583.message import Message

BITMAP_CHARS: Final = 16
"""One bitmap: 64 bits in hexadecimal."""
_FIELD_MAX: Final = 2 * BITMAP_FIELDS
_BITMAP: Final = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_HAS_SECONDARY: Final = frozenset("89ABCDEFabcdef")
_SECONDARY_BITS: Final = (1 << BITMAP_FIELDS) - 1
_SECONDARY_FLAG: Final = 1 << (_FIELD_MAX - 1)
_PREFIXES: Final = {chars: tuple(f"{length:0{chars}d}" for length in range(10**chars)) for chars in (2, 3, 4)}
_LAYOUTS: Final = 1024
"""Cached layouts of one profile."""

Lengths = dict[str, int] | None
"""The length for each length prefix of a variable field; ``None`` for a fixed field."""
Field = tuple[int, int, Lengths, int, type[str] | None]
"""``(number, prefix width, allowed prefixes, size, masking type)``."""
Slot = tuple[int, tuple[str, ...] | None, int]
"""``encode``'s view of a field: ``(number, length prefix by length, size)``; no prefixes for a fixed
field."""


class TextCodec:
    """``codec.Codec`` of a profile that is ASCII throughout."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.layout: Callable[[str], tuple[Field, ...]] = lru_cache(_LAYOUTS)(self._layout)
        """The fields in a bitmap, ascending. Raises ``ValueError`` for a field that is not in the profile."""
        self._slots: Callable[[tuple[int, ...]], tuple[str, tuple[Slot, ...]]] = lru_cache(_LAYOUTS)(
            self._find_slots
        )

    def decode(self, payload: bytes) -> Message:
        """``Codec.decode``."""
        text = payload.decode("latin-1")
        if not (text.isascii() and text.isprintable()):
            text = text[: UNPRINTABLE.search(text).start()]  # type: ignore[union-attr]
        mti = text[:MTI_CHARS]
        if len(mti) < MTI_CHARS or not mti.isdecimal():
            raise _failure("MTI", 0, "is not four digits", None, payload, text)
        fields: dict[int, str] = {}
        message = Message(mti, fields)
        at = MTI_CHARS + bitmap_chars(text)
        if len(text) < at:
            raise _failure("bitmap", MTI_CHARS, "is cut short", message, payload, text)
        try:
            announced = self.layout(text[MTI_CHARS:at])
        except ValueError as problem:
            raise DecodeError("bitmap", MTI_CHARS, str(problem), message) from None
        at = _decode_fields(text, at, announced, message, payload)
        if at != len(payload):
            raise _failure("end", at, "is followed by more data", message, payload, text)
        return message

    def encode(self, message: Message) -> bytes:
        """``Codec.encode``. Bitmaps are in upper case."""
        fields = message.fields
        bitmap, slots = self._slots(tuple(sorted(fields)))
        parts = [message.mti, bitmap]
        for number, prefixes, size in slots:
            value = fields[number]
            length = len(value)
            if prefixes is not None:
                if length > size:
                    raise EncodeError(f"DE{number}", f"has {length} characters, at most {size} fit")
                parts.append(prefixes[length])
            elif length != size:
                raise EncodeError(f"DE{number}", f"has {length} characters, not {size}")
            parts.append(value)
        return _printable_bytes("".join(parts), message)

    def encode_mti(self, mti: str) -> bytes:
        """``Codec.encode_mti``."""
        return mti.encode("ascii")

    def _layout(self, bitmap: str) -> tuple[Field, ...]:
        if _BITMAP.fullmatch(bitmap) is None:
            raise ValueError("is not hexadecimal")
        bits = int(bitmap, 16) << (_FIELD_MAX - 4 * len(bitmap))
        return tuple(
            (
                field.number,
                field.prefix_digits,
                _lengths(field.prefix_digits, text_size(field)) if field.prefix_digits else None,
                text_size(field),
                type_of(field),
            )
            for field in announced_fields(bits, self._table, _FIELD_MAX)
        )

    def _find_slots(self, numbers: tuple[int, ...]) -> tuple[str, tuple[Slot, ...]]:
        fields = formats_of(numbers, self._table)
        return write_bitmap(numbers), tuple(
            (
                field.number,
                _PREFIXES[field.prefix_digits] if field.prefix_digits else None,
                _size_max(field.prefix_digits, text_size(field)),
            )
            for field in fields
        )


@lru_cache(maxsize=256)
def _lengths(chars: int, size: int) -> dict[str, int]:
    """Every valid length prefix of a variable field: one look-up parses and checks it."""
    return {_PREFIXES[chars][length]: length for length in range(_size_max(chars, size) + 1)}


def _size_max(chars: int, size: int) -> int:
    """The largest length: hexadecimal digits may be more than the prefix can announce."""
    return min(size, 10**chars - 1) if chars else size


def bitmap_chars(text: str) -> int:
    """Length of the bitmaps of a message that begins with ``text``."""
    return BITMAP_CHARS * (2 if text[MTI_CHARS : MTI_CHARS + 1] in _HAS_SECONDARY else 1)


def write_bitmap(numbers: Iterable[int]) -> str:
    """The bitmaps of the fields ``numbers``, as ``encode`` writes them."""
    bits = sum(1 << (_FIELD_MAX - number) for number in set(numbers))
    return f"{bits | _SECONDARY_FLAG:032X}" if bits & _SECONDARY_BITS else f"{bits >> BITMAP_FIELDS:016X}"


def _decode_fields(text: str, at: int, announced: tuple[Field, ...], message: Message, payload: bytes) -> int:
    """Add the fields to ``message``. Returns the position after the last one."""
    fields = message.fields
    end = len(text)
    for number, prefix_chars, lengths, size, masked in announced:
        start = at
        if lengths is not None:
            start += prefix_chars
            length = lengths.get(text[at:start])
            if length is None:
                raise _failure(f"DE{number}", at, f"has no length up to {size}", message, payload, text)
            size = length
        stop = start + size
        if stop > end:
            raise _failure(f"DE{number}", start, "is cut short", message, payload, text)
        value = text[start:stop]
        fields[number] = value if masked is None else masked(value)
        at = stop
    return at


def _failure(
    field: str, position: int, problem: str, read: Message | None, payload: bytes, text: str
) -> DecodeError:
    """The error for ``problem``, or for the unprintable byte that ended the reading."""
    if len(text) < len(payload) and field != "MTI":
        return DecodeError(field, len(text), "holds a byte that is not printable ASCII", read)
    return DecodeError(field, position, problem, read)


def _printable_bytes(text: str, message: Message) -> bytes:
    if not is_mti(message.mti):
        raise EncodeError("MTI", "is not four digits")
    if text.isascii() and text.isprintable():
        return text.encode("ascii")
    bad = next(number for number, value in message.fields.items() if UNPRINTABLE.search(value))
    raise EncodeError(f"DE{bad}", "holds a character that is not printable ASCII")
