"""Transliteration of national letters for a machine-readable zone (ICAO Doc 9303-3, section 6).

Issuers choose among several recommended spellings, so each letter has a tuple of spellings.
"""

from __future__ import annotations

import unicodedata
from typing import Final

LATIN: Final[dict[str, tuple[str, ...]]] = {
    "Ä": ("AE", "A"),
    "Å": ("AA", "A"),
    "Æ": ("AE",),
    "Ð": ("D",),
    "Ñ": ("N", "NXX"),
    "Ö": ("OE", "O"),
    "Ø": ("OE", "O"),
    "Ü": ("UE", "UXX", "U"),
    "Þ": ("TH",),
    "ẞ": ("SS",),
    "Đ": ("D",),
    "Ħ": ("H",),
    "İ": ("I",),
    "Ĳ": ("IJ",),
    "ĸ": ("K", "Q"),
    "Ł": ("L",),
    "Ŋ": ("N",),
    "Œ": ("OE",),
    "Ŧ": ("T",),
    "Ə": ("E",),
}
"""Section 6.A: letters for which removing the diacritic is not the only spelling."""

_CYRILLIC_LETTERS: Final = "АБВДЕКЛМНОПРСТУФЫЭЃЅЈЌЉЊҺЏЄҐЎЂѴѪ"
_CYRILLIC_SPELLINGS: Final = "A B V D E K L M N O P R S T U F Y E G DZ J K LJ NJ C DZ IE G U D Y U"

CYRILLIC: Final[dict[str, tuple[str, ...]]] = {
    **{
        letter: (spelling,)
        for letter, spelling in zip(_CYRILLIC_LETTERS, _CYRILLIC_SPELLINGS.split(), strict=True)
    },
    "Г": ("G", "H"),
    "Ё": ("E", "IO"),
    "Ж": ("ZH", "Z"),
    "З": ("Z",),
    "И": ("I", "Y"),
    "І": ("I",),
    "Ї": ("I", "YI"),
    "Й": ("I",),
    "Х": ("KH", "H"),
    "Ц": ("TS", "C"),
    "Ч": ("CH", "C"),
    "Ш": ("SH", "S"),
    "Щ": ("SHCH", "SHT"),
    "Ъ": ("IE", ""),
    "Ь": ("", "I"),
    "Ю": ("IU", "YU"),
    "Я": ("IA", "YA"),
}
"""Section 6.B, with the spellings of Belarusian, Bulgarian, Macedonian, Serbian and Ukrainian."""


def spellings_of(letter: str) -> tuple[str, ...] | None:
    """The spellings of an upper-case letter in a zone; ``None`` for an unsupported script."""
    if letter.isascii():
        return (letter,) if letter.isalpha() else None
    known = LATIN.get(letter) or CYRILLIC.get(letter)
    if known is not None:
        return known
    base = unicodedata.normalize("NFD", letter)[0]
    if base == letter:
        return None
    return (base,) if base.isascii() and base.isalpha() else LATIN.get(base) or CYRILLIC.get(base)
