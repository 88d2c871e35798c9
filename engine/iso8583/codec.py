"""Codec of the profile: bytes to ``Message`` and back.

``pyiso8583`` interprets its specification for each field of each message. This codec caches the layout of
each bitmap, which makes it several times faster; ``tests/engine/iso8583/test_codec.py`` compares both. Errors
contain field and position, no values. Only printable ASCII is accepted: PostgreSQL refuses NUL characters in
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from engine.iso8583.message import Message
from engine.iso8583.spec import BITMAP_CHARS, FIELD_MAX, FIELDS, MTI_CHARS

_BITMAP: Final = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_HAS_SECONDARY: Final = frozenset("89ABCDEFabcdef")
_SECONDARY_BITS: Final = (1 << 64) - 1
_SECONDARY_FLAG: Final = 1 << (FIELD_MAX - 1)
_PREFIXES: Final = {chars: tuple(f"{length:0{chars}d}" for length in range(10**chars)) for chars in (2, 3)}

Lengths = dict[str, int] | None
"""The length for each length prefix of a variable field; ``None`` for a fixed field."""
Field = tuple[int, int, Lengths, int, type[str] | None]
"""``(number, prefix width, allowed prefixes, size, masking type)``."""
Slot = tuple[int, tuple[str, ...] | None, int]
"""``encode``'s view of a field: ``(number, length prefix by length, size)``; no prefixes for a fixed
field."""


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


@lru_cache(maxsize=256)
def _lengths(chars: int, size: int) -> dict[str, int]:
    """Every valid length prefix of a variable field: one look-up parses and checks it."""
    return {_PREFIXES[chars][length]: length for length in range(size + 1)}


@lru_cache(maxsize=1024)
def layout(bitmap: str) -> tuple[Field, ...]:
    """The fields in ``bitmap``, ascending. Raises ``ValueError`` for a field that is not in the profile."""
    if _BITMAP.fullmatch(bitmap) is None:
        raise ValueError("is not hexadecimal")
    bits = int(bitmap, 16) << (FIELD_MAX - 4 * len(bitmap))
    numbers = [number for number in range(2, FIELD_MAX + 1) if bits >> (FIELD_MAX - number) & 1]
    unknown = [number for number in numbers if number not in FIELDS]
    if unknown:
        raise ValueError(f"announces DE{unknown[0]}, which is not in the profile")
    specs = [FIELDS[number] for number in numbers]
    return tuple(
        (
            spec.number,
            spec.prefix_chars,
            _lengths(spec.prefix_chars, spec.size) if spec.prefix_chars else None,
            spec.size,
            None if spec.type is str else spec.type,
        )
        for spec in specs
    )


def bitmap_chars(text: str) -> int:
    """Length of the bitmaps of a message that begins with ``text``."""
    return BITMAP_CHARS * (2 if text[MTI_CHARS : MTI_CHARS + 1] in _HAS_SECONDARY else 1)


def decode(payload: bytes) -> Message:
    """The message in ``payload`` (a frame without its length). Raises ``DecodeError``."""
    text = payload.decode("latin-1")
    if not (text.isascii() and text.isprintable()):
        text = text[: _UNPRINTABLE.search(text).start()]  # type: ignore[union-attr]
    mti = text[:MTI_CHARS]
    if len(mti) < MTI_CHARS or not mti.isdecimal():
        raise _failure("MTI", 0, "is not four digits", None, payload, text)
    fields: dict[int, str] = {}
    message = Message(mti, fields)
    at = MTI_CHARS + bitmap_chars(text)
    if len(text) < at:
        raise _failure("bitmap", MTI_CHARS, "is cut short", message, payload, text)
    try:
        announced = layout(text[MTI_CHARS:at])
    except ValueError as problem:
        raise DecodeError("bitmap", MTI_CHARS, str(problem), message) from None
    at = _decode_fields(text, at, announced, message, payload)
    if at != len(payload):
        raise _failure("end", at, "is followed by more data", message, payload, text)
    return message


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


def encode(message: Message) -> bytes:
    """The bytes of ``message``. Bitmaps are in upper case; the secondary bitmap is added only if a field
    needs it. Raises ``EncodeError``."""
    fields = message.fields
    bitmap, slots = _slots(tuple(sorted(fields)))
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


@lru_cache(maxsize=1024)
def _slots(numbers: tuple[int, ...]) -> tuple[str, tuple[Slot, ...]]:
    """The bitmap of the fields ``numbers``, ascending, and the slot of each field."""
    for number in numbers:
        if number not in FIELDS:
            raise EncodeError(f"DE{number}", "is not in the profile")
    specs = [FIELDS[number] for number in numbers]
    return write_bitmap(numbers), tuple(
        (spec.number, _PREFIXES[spec.prefix_chars] if spec.prefix_chars else None, spec.size)
        for spec in specs
    )


def write_bitmap(numbers: Iterable[int]) -> str:
    """The bitmaps of the fields ``numbers``, as ``encode`` writes them."""
    bits = sum(1 << (FIELD_MAX - number) for number in set(numbers))
    return f"{bits | _SECONDARY_FLAG:032X}" if bits & _SECONDARY_BITS else f"{bits >> 64:016X}"


def _printable_bytes(text: str, message: Message) -> bytes:
    if len(message.mti) != MTI_CHARS or not (message.mti.isascii() and message.mti.isdecimal()):
        raise EncodeError("MTI", "is not four digits")
    if text.isascii() and text.isprintable():
        return text.encode("ascii")
    bad = next(number for number, value in message.fields.items() if _UNPRINTABLE.search(value))
    raise EncodeError(f"DE{bad}", "holds a character that is not printable ASCII")
