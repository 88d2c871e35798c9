"""Encodings of single values: printable text in ASCII or EBCDIC, packed decimal digits, and bytes.

A value inside is printable ASCII text; bytes are hexadecimal digits. Units are characters, digits of packed
values, and hexadecimal digits of bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol

from engine.iso8583.formats import Encoding

_EBCDIC: Final = {"cp037": "cp037", "cp1148": "cp500"}
"""Python's codec of each code page. CP1148 is CP500 with the euro sign, which no value may hold."""
_TRACK: Final = re.compile(r"[0-9=DF]*", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]*", re.ASCII)


class ValueCodec(Protocol):
    """Encodes the values of one encoding. Both directions raise ``ValueError``."""

    packed: bool
    """Whether a byte holds two units."""
    is_bytes: bool
    """Whether values are bytes."""

    def bytes_of(self, units: int) -> int:
        """The bytes of so many units."""

    def read(self, data: bytes, units: int, /) -> str:
        """The text in ``data``, which has ``bytes_of(units)`` bytes."""

    def write(self, value: str) -> bytes:
        """The bytes of ``value``."""


class _Text:
    packed = False
    is_bytes = False

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def bytes_of(self, units: int) -> int:
        return units

    def read(self, data: bytes, _units: int, /) -> str:
        try:
            text = data.decode(self._codec)
        except UnicodeDecodeError:
            raise ValueError("holds a byte that is not printable text") from None
        if not (text.isascii() and text.isprintable()):
            raise ValueError("holds a byte that is not printable text")
        return text

    def write(self, value: str) -> bytes:
        if not (value.isascii() and value.isprintable()):
            raise ValueError("holds a character that is not printable ASCII")
        return value.encode(self._codec)


class _Hex(_Text):
    """Bytes as hexadecimal digits in text."""

    def write(self, value: str) -> bytes:
        if _HEXADECIMAL.fullmatch(value) is None:
            raise ValueError("is not hexadecimal")
        return super().write(value)


class _Packed:
    """Two digits in a byte. An odd number of digits is padded with a zero, to the left or to the right."""

    packed = True
    is_bytes = False

    def __init__(self, *, left: bool, track: bool) -> None:
        self._left = left
        self._track = track

    def bytes_of(self, units: int) -> int:
        return (units + 1) // 2

    def read(self, data: bytes, units: int, /) -> str:
        digits = data.hex().upper()
        if units % 2:
            padding = digits[-1] if self._left else digits[0]
            if padding not in ("0F" if self._left else "0"):
                raise ValueError("is not padded with a zero")
            digits = digits[:-1] if self._left else digits[1:]
        if not self._valid(digits):
            raise ValueError("is not packed digits")
        return digits

    def write(self, value: str) -> bytes:
        if self._track:
            value = value.replace("=", "D")
        if not self._valid(value):
            raise ValueError("is not numeric")
        if len(value) % 2:
            value = f"{value}0" if self._left else f"0{value}"
        return bytes.fromhex(value)

    def _valid(self, digits: str) -> bool:
        if self._track:
            return _TRACK.fullmatch(digits) is not None
        return digits.isascii() and (digits.isdecimal() or not digits)


class _Raw:
    """Bytes as they are."""

    packed = True
    is_bytes = True

    def bytes_of(self, units: int) -> int:
        return (units + 1) // 2

    def read(self, data: bytes, _units: int, /) -> str:
        return data.hex().upper()

    def write(self, value: str) -> bytes:
        if len(value) % 2 or _HEXADECIMAL.fullmatch(value) is None:
            raise ValueError("is not pairs of hexadecimal digits")
        return bytes.fromhex(value)


@lru_cache(maxsize=32)
def value_codec(encoding: Encoding, *, text: Encoding = "ascii", track: bool = False) -> ValueCodec:
    """The codec of ``encoding``. ``text``: encoding of hexadecimal digits. A packed ``track`` may hold the
    separator and the filler of track data."""
    if encoding == "raw":
        return _Raw()
    if encoding in ("bcd-right", "bcd-left"):
        return _Packed(left=encoding == "bcd-left", track=track)
    if encoding == "hex":
        return _Hex(_EBCDIC.get(text, text))
    return _Text(_EBCDIC.get(encoding, encoding))
