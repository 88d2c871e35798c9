"""The century of a date with six digits."""

from __future__ import annotations

from datetime import date

import pytest

from engine.mrz.dates import birth_date, expiry_date, is_date_text

TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("text", "born"),
    [
        ("740812", "1974-08-12"),
        ("261121", "2026-11-21"),
        ("261122", "1926-11-22"),
        ("000229", "2000-02-29"),
        ("240229", "2024-02-29"),
        ("280229", "1928-02-29"),
        ("7408<<", None),
        ("<<<<<<", None),
        ("990231", None),
    ],
)
def test_birth_date_is_in_the_past(text: str, born: str | None) -> None:
    found = birth_date(text, TODAY)
    assert (found and found.isoformat()) == born


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("120415", "2012-04-15"),
        ("350101", "2035-01-01"),
        ("751231", "2075-12-31"),
        ("761231", "1976-12-31"),
        ("990101", "1999-01-01"),
        ("250229", None),
    ],
)
def test_expiry_date_is_near_today(text: str, last: str | None) -> None:
    found = expiry_date(text, TODAY)
    assert (found and found.isoformat()) == last


@pytest.mark.parametrize(
    ("text", "whole", "partial"),
    [
        ("740812", True, True),
        ("741301", False, False),
        ("7408<<", False, True),
        ("74<<12", False, True),
        ("74<8<<", False, False),
        ("<<<<<<", False, True),
        ("7413<<", False, False),
        ("A40812", False, False),
    ],
)
def test_valid_date_texts(text: str, whole: bool, partial: bool) -> None:
    assert (is_date_text(text, partial=False), is_date_text(text, partial=True)) == (whole, partial)
