"""Spellings of national letters (ICAO Doc 9303-3, section 6)."""

from __future__ import annotations

import pytest

from engine.mrz.letters import CYRILLIC, LATIN, spellings_of


@pytest.mark.parametrize(
    ("letter", "spellings"),
    [
        ("A", ("A",)),
        ("É", ("E",)),
        ("Ç", ("C",)),
        ("Ő", ("O",)),
        ("Ş", ("S",)),
        ("Ǿ", ("OE", "O")),
        ("Ü", ("UE", "UXX", "U")),
        ("Ñ", ("N", "NXX")),
        ("Þ", ("TH",)),
        ("Ж", ("ZH", "Z")),
        ("Ь", ("", "I")),
        ("Ѐ", ("E",)),
        ("Ω", None),
        ("李", None),
        ("1", None),
        ("_", None),
    ],
)
def test_letter_has_the_spellings_of_the_standard(letter: str, spellings: tuple[str, ...] | None) -> None:
    assert spellings_of(letter) == spellings


def test_spellings_are_letters_of_the_zone() -> None:
    for letter, spellings in {**LATIN, **CYRILLIC}.items():
        assert not letter.isascii()
        assert spellings
        assert all(spelling == "" or (spelling.isascii() and spelling.isupper()) for spelling in spellings)
