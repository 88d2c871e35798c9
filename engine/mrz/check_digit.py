"""The check digit of a machine-readable zone (ICAO Doc 9303-3, section 4.9).

The digit detects a changed character unless its value changes by a multiple of 10: ``<``, ``0``, ``A``, ``K``
and ``U`` are equivalent, as are ``1``, ``B``, ``L`` and ``V``, and so on. The grammar of the fields detects
some of these changes: a date, for example, accepts digits only.
"""

from __future__ import annotations

from itertools import cycle
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FILLER: Final = "<"

VALUES: Final = {character: value for value, character in enumerate(ALPHABET)} | {FILLER: 0}

_WEIGHTS: Final = (7, 3, 1)


def check_digit(text: str) -> str:
    """The digit that protects ``text``, which holds characters of the zone only."""
    weighted = (VALUES[character] * weight for character, weight in zip(text, cycle(_WEIGHTS), strict=False))
    return str(sum(weighted) % 10)


def protects(digit: str, text: str) -> bool:
    """Whether ``digit`` is the check digit of ``text``."""
    return digit == check_digit(text)
