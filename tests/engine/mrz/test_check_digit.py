"""The check digit against the worked examples of the standard, and what it can and cannot find."""

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
def test_the_worked_examples(text: str, digit: str) -> None:
    assert check_digit(text) == digit
    assert protects(digit, text)


def test_exactly_the_values_that_differ_by_ten_stand_for_each_other() -> None:
    for one in ALPHABET + FILLER:
        for other in ALPHABET + FILLER:
            unseen = check_digit(f"7{one}X") == check_digit(f"7{other}X")
            assert unseen == (VALUES[one] % 10 == VALUES[other] % 10), (one, other)
