"""Transliteration of names to printable ASCII.

Unicode decomposition removes accents. Letters without a decomposition (ł, ß, ø, đ) are replaced by a table,
in the spelling of passports (ICAO 9303, part 3, section 6) or the closest form. Other characters become
``?``.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_LETTERS: Final = {
    "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l",
    "Đ": "D", "đ": "d", "Ð": "D", "ð": "d", "Þ": "TH", "þ": "th", "ẞ": "SS", "ß": "ss",
    "Ħ": "H", "ħ": "h", "Ŧ": "T", "ŧ": "t", "ı": "i", "ĸ": "k", "Ŋ": "N", "ŋ": "n",
    "Ə": "E", "ə": "e", "Ƀ": "B", "ƀ": "b", "Ɨ": "I", "ɨ": "i",
}  # fmt: skip
_MARKS: Final = {
    "‘": "'", "’": "'", "‚": ",", "‛": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "‹": "'", "›": "'", "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-", "·": ".", "•": ".",
    "′": "'", "″": '"', "×": "x", "©": "(C)", "®": "(R)", "¡": "!", "¿": "?", "ª": "a", "º": "o",
    "€": "EUR", "£": "GBP", "¥": "JPY",
}  # fmt: skip
_TABLE: Final = str.maketrans(_LETTERS | _MARKS)
_PLACEHOLDER: Final = "?"


def plain(text: str) -> str:
    """``text`` in printable ASCII; the result may be longer than ``text``.

    >>> plain("Łódź")
    'Lodz'
    """
    if text.isascii() and text.isprintable():
        return text
    # Decomposed first: a letter of the table may have an accent (ǿ).
    decomposed = unicodedata.normalize("NFKD", text).translate(_TABLE)
    return "".join(
        letter if " " <= letter <= "~" else _PLACEHOLDER
        for letter in decomposed
        if not unicodedata.combining(letter)
    )
