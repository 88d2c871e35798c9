"""The check digit: the worked examples of the standard, and the errors that it detects."""

from __future__ import annotations

import pytest

from engine.mrz.check_digit import ALPHABET, FILLER, VALUES, check_digit, protects


@pytest.mark.parametrize(
    ("text", "digit"),
    [
        # ICAO Doc 9303-3, appendix A.
        ("520727", "3"),
        ("AB2134<<<", "5"),
        ("HA672242<658022549601086<<<<<<<<<<<<<<0", "8"),
        ("D231458907<<<<<<<<<<<<<<<34071279507122<<<<<<<<<<", "2"),
        ("HA672242<658022549601086<<<<<<<", "8"),
    ],
)
def test_worked_examples_of_the_standard(text: str, digit: str) -> None:
    assert check_digit(text) == digit
    assert protects(digit, text)


def test_characters_with_equal_values_modulo_ten_are_equivalent() -> None:
    for one in ALPHABET + FILLER:
        for other in ALPHABET + FILLER:
            unseen = check_digit(f"7{one}X") == check_digit(f"7{other}X")
            assert unseen == (VALUES[one] % 10 == VALUES[other] % 10), (one, other)
