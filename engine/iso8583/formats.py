"""Formats of data elements, in the notation of ISO 8583: ``n6``, ``ans..99``, ``b...255``.

A format is independent of its encoding. ``n`` are digits, ``z`` track data, ``b`` bytes; all other kinds are
text. Two, three or four dots announce a variable length with a prefix of as many digits. ``x+n8`` is a sign
(C or D) and eight digits, which every encoding writes as nine characters of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

Kind = Literal["n", "z", "b", "text"]
Encoding = Literal["ascii", "cp037", "cp1148", "bcd-right", "bcd-left", "hex", "raw"]
LengthEncoding = Literal["text", "bcd", "binary"]
Counting = Literal["digits", "bytes"]

_NOTATION: Final = re.compile(
    r"(x\+n|n|z|b|a|p|s|an|as|ap|ns|anp|ans)(\.{2,4}(?!\.))?([1-9]\d{0,3})", re.ASCII
)
_KINDS: Final[dict[str, Kind]] = {"n": "n", "z": "z", "b": "b"}
_LINE: Final = re.compile(r"(\d+)(?:-(\d+))? +(\S+) +(.+)", re.ASCII)


class FieldFormat(msgspec.Struct, frozen=True, gc=False):
    """One data element: its format and, where they differ from those of the profile, its encodings."""

    number: int
    name: str
    kind: Kind
    size: int
    """Length of a fixed element, maximum of a variable one: in characters or digits, in bytes for ``b``."""
    prefix_digits: int
    """Digits of the length prefix; 0 for a fixed length."""
    encoding: Encoding | None = None
    """``None``: the profile's encoding of this kind."""
    length_encoding: LengthEncoding | None = None
    counts: Counting | None = None
    """Unit of the length prefix of BCD digits."""
    secret: bool = False
    """Whether the value is masked."""


def read_format(number: int, notation: str, name: str) -> FieldFormat:
    """The format that ``notation`` describes. Raises ``ValueError`` if it is none."""
    match = _NOTATION.fullmatch(notation)
    if match is None:
        raise ValueError(f"{notation!r} is not a format such as n6, ans..99 or b...255")
    kind, dots, digits = match.groups()
    prefix_digits, size = len(dots or ""), int(digits)
    if prefix_digits and size >= 10**prefix_digits:
        raise ValueError(f"a prefix of {prefix_digits} digits cannot announce {size}")
    return FieldFormat(number, name, _KINDS.get(kind, "text"), size + (kind == "x+n"), prefix_digits)


def read_table(text: str) -> dict[int, FieldFormat]:
    """The formats of a table with a line for each element or range of elements: number, format, name."""
    return {each.number: each for line in text.strip().splitlines() for each in _read_line(line.strip())}


def _read_line(line: str) -> Iterator[FieldFormat]:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    first, last, notation, name = match.groups()
    for number in range(int(first), int(last or first) + 1):
        yield read_format(number, notation, name)
