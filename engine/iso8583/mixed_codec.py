"""Codec of messages that mix encodings: EBCDIC, BCD, raw bytes, binary bitmaps and lengths.

Each field has a reader and a writer that are built once for a profile. The fields of each bitmap are cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from engine.iso8583.codec import (
    BITMAP_FIELDS,
    MTI_CHARS,
    DecodeError,
    EncodeError,
    Encodings,
    Table,
    announced_fields,
    encoding_of,
    formats_of,
    is_mti,
    type_of,
)
from engine.iso8583.formats import FieldFormat
from engine.iso8583.message import Message
from engine.iso8583.values import ValueCodec, value_codec

_LAYOUTS: Final = 1024
"""Cached layouts of one profile."""
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_CONTINUES: Final = 1 << (BITMAP_FIELDS - 1)
"""The first bit of a bitmap: another bitmap follows."""


class _FieldError(ValueError):
    """A field cannot be read; ``at``: the position of the fault."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at = at


class _Field(msgspec.Struct, frozen=True):
    """A field of the profile with its reader and its writer."""

    number: int
    read: Callable[[bytes, int], tuple[str, int]]
    """Value and position after it, of the field at a position. Raises ``_FieldError``."""
    write: Callable[[str], bytes]
    """Raises ``ValueError``."""
    masked: type[str] | None


class MixedCodec:
    """``codec.Codec`` for any combination of encodings."""

    def __init__(self, table: Table, encodings: Encodings) -> None:
        self._table = table
        self._encodings = encodings
        self._mti = value_codec(encoding_of(FieldFormat(0, "MTI", "n", MTI_CHARS, 0), encodings))
        self._bitmap = value_codec(encodings.bitmap, text=encodings.text)
        self._bitmap_bytes = BITMAP_FIELDS // 8 * (1 if encodings.bitmap == "raw" else 2)
        self._fields = {number: _compile(field, encodings) for number, field in table.items()}
        self._layout: Callable[[int], tuple[_Field, ...]] = lru_cache(_LAYOUTS)(self._find_layout)
        self._slots: Callable[[tuple[int, ...]], tuple[bytes, tuple[_Field, ...]]] = lru_cache(_LAYOUTS)(
            self._find_slots
        )

    def decode(self, payload: bytes) -> Message:
        """``Codec.decode``."""
        at = self._mti.bytes_of(MTI_CHARS)
        try:
            mti = self._mti.read(payload[:at], MTI_CHARS)
        except ValueError:
            mti = ""
        if not is_mti(mti):
            raise DecodeError("MTI", 0, "is not four digits", None)
        fields: dict[int, str] = {}
        message = Message(mti, fields)
        try:
            bits, at = self._read_bitmaps(payload, at)
            announced = self._layout(bits)
        except ValueError as problem:
            raise DecodeError("bitmap", at, str(problem), message) from None
        for field in announced:
            try:
                value, at = field.read(payload, at)
            except _FieldError as problem:
                raise DecodeError(f"DE{field.number}", problem.at, str(problem), message) from None
            fields[field.number] = value if field.masked is None else field.masked(value)
        if at != len(payload):
            raise DecodeError("end", at, "is followed by more data", message)
        return message

    def encode(self, message: Message) -> bytes:
        """``Codec.encode``."""
        if not is_mti(message.mti):
            raise EncodeError("MTI", "is not four digits")
        fields = message.fields
        bitmap, slots = self._slots(tuple(sorted(fields)))
        parts = [self._mti.write(message.mti), bitmap]
        for field in slots:
            try:
                parts.append(field.write(fields[field.number][:]))
            except ValueError as problem:
                raise EncodeError(f"DE{field.number}", str(problem)) from None
        return b"".join(parts)

    def encode_mti(self, mti: str) -> bytes:
        """``Codec.encode_mti``."""
        return self._mti.write(mti)

    def _read_bitmaps(self, payload: bytes, at: int) -> tuple[int, int]:
        """The bits of all bitmaps, as if all that the profile allows were present."""
        bits = 0
        more = True
        for _ in range(self._encodings.bitmaps):
            bits <<= BITMAP_FIELDS
            if more:
                stop = at + self._bitmap_bytes
                if stop > len(payload):
                    raise ValueError("is cut short")
                digits = self._bitmap.read(payload[at:stop], BITMAP_FIELDS // 4)
                if _HEXADECIMAL.fullmatch(digits) is None:
                    raise ValueError("is not hexadecimal")
                bitmap = int(digits, 16)
                bits |= bitmap
                more = bool(bitmap & _CONTINUES)
                at = stop
        if more:
            raise ValueError(f"announces DE{self._encodings.field_max + 1}, which is not in the profile")
        return bits, at

    def _find_layout(self, bits: int) -> tuple[_Field, ...]:
        announced = announced_fields(bits, self._table, self._encodings.field_max)
        return tuple(self._fields[field.number] for field in announced)

    def _find_slots(self, numbers: tuple[int, ...]) -> tuple[bytes, tuple[_Field, ...]]:
        formats_of(numbers, self._table)
        return self._write_bitmaps(numbers), tuple(self._fields[number] for number in numbers)

    def _write_bitmaps(self, numbers: tuple[int, ...]) -> bytes:
        count = max((number - 1) // BITMAP_FIELDS + 1 for number in (1, *numbers))
        bitmaps = [0] * count
        for number in numbers:
            bitmaps[(number - 1) // BITMAP_FIELDS] |= _CONTINUES >> ((number - 1) % BITMAP_FIELDS)
        continued = [bits | _CONTINUES for bits in bitmaps[:-1]] + bitmaps[-1:]
        return b"".join(self._bitmap.write(f"{bits:016X}") for bits in continued)


def _compile(field: FieldFormat, encodings: Encodings) -> _Field:
    values = value_codec(encoding_of(field, encodings), text=encodings.text, track=field.kind == "z")
    read, write = _fixed(field, values)
    if field.prefix_digits:
        read, write = _variable(field, values, encodings)
    return _Field(field.number, read, write, type_of(field))


def _fixed(
    field: FieldFormat, values: ValueCodec
) -> tuple[Callable[[bytes, int], tuple[str, int]], Callable[[str], bytes]]:
    units = field.size * (2 if field.kind == "b" else 1)
    size = values.bytes_of(units)

    def read(payload: bytes, at: int) -> tuple[str, int]:
        stop = at + size
        if stop > len(payload):
            raise _FieldError(at, "is cut short")
        return _value(values, payload, at, stop, units), stop

    def write(value: str) -> bytes:
        if len(value) != units:
            raise ValueError(f"has {len(value)} characters, not {units}")
        return values.write(value)

    return read, write


def _variable(
    field: FieldFormat, values: ValueCodec, encodings: Encodings
) -> tuple[Callable[[bytes, int], tuple[str, int]], Callable[[str], bytes]]:
    """A prefix counts characters, bytes of raw data, and digits or bytes of BCD."""
    units_max = field.size * (2 if field.kind == "b" else 1)
    in_bytes = values.packed and (values.is_bytes or (field.counts or encodings.counts) == "bytes")
    count_max = min(values.bytes_of(units_max) if in_bytes else units_max, 10**field.prefix_digits - 1)
    prefix = _prefix(field, encodings)
    width = prefix.bytes_of(field.prefix_digits)

    def read(payload: bytes, at: int) -> tuple[str, int]:
        start = at + width
        try:
            count = prefix.number(payload[at:start]) if start <= len(payload) else None
        except ValueError:
            count = None
        if count is None or count > count_max:
            raise _FieldError(at, f"has no length up to {count_max}")
        stop = start + (count if in_bytes else values.bytes_of(count))
        if stop > len(payload):
            raise _FieldError(start, "is cut short")
        units = 2 * count if in_bytes else count
        return _value(values, payload, start, stop, units), stop

    def write(value: str) -> bytes:
        encoded = values.write(value)
        count = len(encoded) if in_bytes else len(value)
        if count > count_max:
            raise ValueError(f"has {len(value)} characters, at most {units_max} fit")
        return prefix.write_number(count) + encoded

    return read, write


def _value(values: ValueCodec, payload: bytes, start: int, stop: int, units: int) -> str:
    try:
        return values.read(payload[start:stop], units)
    except ValueError as problem:
        raise _FieldError(start, str(problem)) from None


class _Prefix(msgspec.Struct, frozen=True):
    """A length prefix of ``digits`` decimal digits, or a big-endian number."""

    digits: int
    values: ValueCodec | None

    def bytes_of(self, digits: int) -> int:
        if self.values is None:
            return (digits + 1) // 2
        return self.values.bytes_of(digits)

    def number(self, data: bytes) -> int:
        """Raises ``ValueError``."""
        if self.values is None:
            return int.from_bytes(data, "big")
        text = self.values.read(data, self.digits)
        if not text.isdecimal():
            raise ValueError(text)
        return int(text)

    def write_number(self, count: int) -> bytes:
        if self.values is None:
            return count.to_bytes(self.bytes_of(self.digits), "big")
        return self.values.write(f"{count:0{self.digits}d}")


def _prefix(field: FieldFormat, encodings: Encodings) -> _Prefix:
    encoding = field.length_encoding or encodings.lengths
    if encoding == "binary":
        return _Prefix(field.prefix_digits, None)
    if encoding == "bcd":
        return _Prefix(field.prefix_digits, value_codec("bcd-right"))
    return _Prefix(field.prefix_digits, value_codec(encodings.text))
