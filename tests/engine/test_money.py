"""The grammar of amounts: parsing and formatting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.limits import AMOUNT_MINOR_MAX, WIRE_AMOUNT_MINOR_MAX
from engine.money import CURRENCY_ALPHA, CURRENCY_NUMERIC, HOME_COUNTRY, format_minor, parse_amount


@pytest.mark.parametrize(
    ("text", "amount_minor"),
    [
        ("0", 0),
        ("0.0", 0),
        ("0.00", 0),
        ("0.01", 1),
        ("0.1", 10),
        ("1", 100),
        ("12.5", 1_250),
        ("12.05", 1_205),
        ("9999999999999999.99", AMOUNT_MINOR_MAX),
    ],
)
def test_valid_amounts(text: str, amount_minor: int) -> None:
    assert parse_amount(text) == amount_minor


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "1 ",
            " 1",
            "1\n",
            "\n1",
            "+1",
            "-1",
            "-0",
            "01",
            "00",
            "00.1",
            "1.",
            ".1",
            "1.234",
            "1,5",
        ),
        *("1e2", "1E2", "0x1", "NaN", "Infinity", "inf", "1_000", "1 000", "1.2.3", "10000000000000000"),
        *("\u0661", "\uff11", "1.\u0665", "\u00b2", "1\u066b5", "1\x00", "١٢"),
    ],
)
def test_invalid_amounts(text: str) -> None:
    assert parse_amount(text) is None


@given(st.integers(0, AMOUNT_MINOR_MAX))
def test_amount_survives_its_text(amount_minor: int) -> None:
    assert parse_amount(format_minor(amount_minor)) == amount_minor


@given(st.from_regex(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,2})?", fullmatch=True))
def test_every_text_of_the_grammar_is_valid(text: str) -> None:
    amount_minor = parse_amount(text)
    assert amount_minor is not None
    whole, _, fraction = text.partition(".")
    assert format_minor(amount_minor) == f"{whole}.{fraction:0<2}"


@given(st.text(max_size=24))
def test_other_texts_are_invalid(text: str) -> None:
    amount_minor = parse_amount(text)
    if amount_minor is not None:
        assert text.isascii()
        assert float(text) * 100 == pytest.approx(amount_minor)


@given(st.integers(-(10**20), 10**20))
def test_formatted_amount_has_two_decimals_and_a_sign(amount_minor: int) -> None:
    text = format_minor(amount_minor)
    assert text.startswith("-") == (amount_minor < 0)
    whole, fraction = text.removeprefix("-").split(".")
    assert int(whole) * 100 + int(fraction) == abs(amount_minor)
    assert len(fraction) == 2


def test_currencies() -> None:
    assert CURRENCY_NUMERIC == {"EUR": "978", "GBP": "826", "USD": "840"}
    assert {CURRENCY_ALPHA[numeric]: numeric for numeric in CURRENCY_ALPHA} == CURRENCY_NUMERIC
    assert HOME_COUNTRY == {"EUR": "IE", "GBP": "GB", "USD": "US"}
    assert WIRE_AMOUNT_MINOR_MAX == 999_999_999_999
