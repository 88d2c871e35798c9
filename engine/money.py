"""Amounts and currencies.

Inside, an amount is an ``int`` of minor units whose name ends in ``_minor``. On the API it is a decimal
string with the grammar ``(0|[1-9][0-9]{0,15})(\\.[0-9]{1,2})?``, ASCII only. ``Decimal`` is avoided on
purpose: it accepts NaN, exponents and non-ASCII digits.
"""

from __future__ import annotations

import re

from engine.limits import AMOUNT_MINOR_MAX

CURRENCY_NUMERIC = {"EUR": "978", "GBP": "826", "USD": "840"}
"""ISO 4217 alphabetic to numeric code (ISO 8583 DE49) for the currencies that can be issued."""

CURRENCY_ALPHA = {numeric: alpha for alpha, numeric in CURRENCY_NUMERIC.items()}

MINOR_DIGITS = 2
"""All three currencies have two minor digits."""

HOME_COUNTRY = {"EUR": "IE", "GBP": "GB", "USD": "US"}
"""The default merchant country of a simulated spend (ISO 3166-1 alpha-2)."""

_CENTS = tuple(f".{cents:02d}" for cents in range(100))
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,15})(?:\.([0-9]{1,2}))?", re.ASCII)


def parse_amount(text: str) -> int | None:
    """Minor units of a decimal string, or ``None`` if it does not match the grammar.

    >>> parse_amount("12.5")
    1250
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match.groups()
    amount_minor = int(whole) * 100 + int((fraction or "0").ljust(MINOR_DIGITS, "0"))
    return amount_minor if amount_minor <= AMOUNT_MINOR_MAX else None


def format_minor(amount_minor: int) -> str:
    """The decimal string of minor units, always with two decimals; signed when negative.

    >>> format_minor(-5)
    '-0.05'
    """
    if amount_minor < 0:
        return f"-{format_minor(-amount_minor)}"
    return f"{amount_minor // 100}{_CENTS[amount_minor % 100]}"
