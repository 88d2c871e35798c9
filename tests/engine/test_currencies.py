"""Currencies: minor digits, decimal strings, rates, shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.currencies import (
    CURRENCY_BY_NUMERIC,
    MINOR_DIGITS_BY_CURRENCY,
    NUMERIC_BY_CURRENCY,
    MerchantAmount,
    billing_cap_minor,
    billing_share_minor,
    format_money,
    merchant_members,
    merchant_share_minor,
    parse_money,
    rate_of,
    read_rate,
)
from engine.limits import AMOUNT_MINOR_MAX, WIRE_AMOUNT_MINOR_MAX
from engine.money import CURRENCY_NUMERIC

CURRENCIES = st.sampled_from(sorted(MINOR_DIGITS_BY_CURRENCY))
AMOUNTS = st.integers(min_value=1, max_value=WIRE_AMOUNT_MINOR_MAX)


@pytest.mark.parametrize(
    ("currency", "digits", "numeric"), [("JPY", 0, "392"), ("EUR", 2, "978"), ("KWD", 3, "414")]
)
def test_currency_has_its_digits_and_code(currency: str, digits: int, numeric: str) -> None:
    assert MINOR_DIGITS_BY_CURRENCY[currency] == digits
    assert NUMERIC_BY_CURRENCY[currency] == numeric
    assert CURRENCY_BY_NUMERIC[numeric] == currency


@pytest.mark.parametrize("code", ["XAU", "XXX", "XTS", "UYW", "CLF", "XDR"])
def test_units_without_cash_amounts_are_unknown(code: str) -> None:
    assert code not in MINOR_DIGITS_BY_CURRENCY


def test_currencies_of_cards_are_among_them() -> None:
    assert {code: NUMERIC_BY_CURRENCY[code] for code in CURRENCY_NUMERIC} == CURRENCY_NUMERIC


@pytest.mark.parametrize(
    ("text", "currency", "expected"),
    [
        ("1000", "JPY", 1000),
        ("1000.0", "JPY", None),
        ("1.5", "EUR", 150),
        ("1.505", "EUR", None),
        ("1.505", "KWD", 1505),
        ("01", "EUR", None),
        ("-1", "EUR", None),
        ("١", "EUR", None),
        ("1", "XXX", None),
        ("999999999999999999", "JPY", AMOUNT_MINOR_MAX),
        ("999999999999999999", "EUR", None),
    ],
)
def test_parse(text: str, currency: str, expected: int | None) -> None:
    assert parse_money(text, currency) == expected


@given(AMOUNTS, CURRENCIES)
def test_formatted_amount_parses_to_itself(amount_minor: int, currency: str) -> None:
    assert parse_money(format_money(amount_minor, currency), currency) == amount_minor


@pytest.mark.parametrize(
    ("field", "rate"),
    [
        ("70061300", "0.00613"),
        ("51234567", "12.34567"),
        ("01234567", "1234567"),
        ("21000000", "10000"),
        ("80000001", None),
        ("70000000", None),
        ("7006130", None),
        ("7006130x", None),
    ],
)
def test_rate_of_de10(field: str, rate: str | None) -> None:
    assert read_rate(field) == rate


@given(AMOUNTS, CURRENCIES, AMOUNTS)
def test_network_s_rate_is_always_readable(amount_minor: int, currency: str, billing_minor: int) -> None:
    assert read_rate(rate_of(MerchantAmount(amount_minor, currency), billing_minor, "EUR")) is not None


@given(AMOUNTS, AMOUNTS, st.data())
def test_hold_of_a_share_covers_it(amount_minor: int, billing_minor: int, data: st.DataObject) -> None:
    share_minor = data.draw(st.integers(min_value=0, max_value=amount_minor))
    merchant = MerchantAmount(amount_minor, "JPY")
    held_minor = billing_share_minor(share_minor, merchant, billing_minor)
    assert held_minor * amount_minor >= share_minor * billing_minor
    assert merchant_share_minor(held_minor, amount_minor, billing_minor) >= share_minor
    assert held_minor <= billing_minor


@given(AMOUNTS, AMOUNTS, st.data())
def test_cap_is_never_exceeded(amount_minor: int, billing_minor: int, data: st.DataObject) -> None:
    cap_minor = data.draw(st.integers(min_value=0, max_value=amount_minor))
    approved_minor = billing_cap_minor(cap_minor, MerchantAmount(amount_minor, "JPY"), billing_minor)
    assert merchant_share_minor(approved_minor, amount_minor, billing_minor) <= cap_minor


def test_members_of_a_conversion() -> None:
    assert merchant_members(None) == {}
    assert merchant_members(MerchantAmount(1250, "KWD", "3.016")) == {
        "merchant_amount": {"amount": "1.250", "currency": "KWD"},
        "conversion_rate": "3.016",
    }
