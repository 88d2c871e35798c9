"""Currencies of ISO 4217: their codes and minor units, and the conversion of a purchase's amount.

A card has one of the currencies of ``engine.money``. A merchant may charge any currency with 0, 2 or 3 minor
digits: the *merchant amount*. Its network converts that amount to the currency of the card: the *billing
amount*, which alone is decided on, held and posted. ``ops/docs/CURRENCIES.md`` describes the life of a
converted purchase.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from iso4217 import raw_table

from engine.limits import AMOUNT_MINOR_MAX

_SUPPORTED_DIGITS: Final = {"0": 0, "2": 2, "3": 3}

MINOR_DIGITS_BY_CURRENCY: Final[dict[str, int]] = {
    code: _SUPPORTED_DIGITS[entry["CcyMnrUnts"]]
    for code, entry in raw_table.items()
    if entry["CcyMnrUnts"] in _SUPPORTED_DIGITS
}
"""Minor digits by alphabetic code. Units of account, metals and test codes have none and are not here."""

NUMERIC_BY_CURRENCY: Final[dict[str, str]] = {
    code: f"{raw_table[code]['CcyNbr']:03d}" for code in MINOR_DIGITS_BY_CURRENCY
}
"""Numeric code (DE49, DE51) by alphabetic code."""

CURRENCY_BY_NUMERIC: Final[dict[str, str]] = {numeric: code for code, numeric in NUMERIC_BY_CURRENCY.items()}
"""Alphabetic code by numeric code."""

RATE_DIGITS: Final = 7
"""Digits of a conversion rate in DE10; the digit before them is the number of decimals."""

_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,17})(?:\.([0-9]{1,3}))?", re.ASCII)


class MerchantAmount(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The amount that the merchant charges, where it is not in the currency of the card."""

    amount_minor: int
    """In minor units of ``currency`` (DE4)."""
    currency: str
    """Alphabetic code (DE49)."""
    rate: str | None = None
    """The network's conversion rate as a decimal string (DE10): one unit of ``currency`` in the currency of
    the card."""


def billing_share_minor(share_minor: int, merchant: MerchantAmount, billing_minor: int) -> int:
    """``share_minor`` of the merchant amount in the currency of the card, in proportion to the purchase:
    ``merchant`` was converted to ``billing_minor``. Rounded up, so that a hold always covers it.

    >>> billing_share_minor(500, MerchantAmount(1000, "JPY"), 613)
    307
    """
    if not merchant.amount_minor:
        return 0
    return -(-share_minor * billing_minor // merchant.amount_minor)


def billing_cap_minor(cap_minor: int, merchant: MerchantAmount, billing_minor: int) -> int:
    """The largest billing amount that is not above ``cap_minor`` of the merchant's currency."""
    return cap_minor * billing_minor // merchant.amount_minor if merchant.amount_minor else 0


def merchant_share_minor(share_minor: int, merchant_minor: int, billing_minor: int) -> int:
    """``share_minor`` of the billing amount in the merchant's currency. Rounded down: a merchant hands out no
    more than was approved.

    >>> merchant_share_minor(307, 1000, 613)
    500
    """
    return share_minor * merchant_minor // billing_minor if billing_minor else 0


def parse_money(text: str, currency: str) -> int | None:
    """Minor units of a decimal string in ``currency``. ``None`` if it has more decimals than the currency, or
    is no amount, or too large, or if the currency is unknown.

    >>> parse_money("1.250", "KWD")
    1250
    """
    digits, match = MINOR_DIGITS_BY_CURRENCY.get(currency), _AMOUNT.fullmatch(text)
    if digits is None or match is None:
        return None
    whole, fraction = match.groups(default="")
    if len(fraction) > digits:
        return None
    amount_minor = int(whole + fraction.ljust(digits, "0"))
    return amount_minor if amount_minor <= AMOUNT_MINOR_MAX else None


def format_money(amount_minor: int, currency: str) -> str:
    """The decimal string of minor units of ``currency``, with all its decimals.

    >>> format_money(1250, "KWD"), format_money(-5, "EUR"), format_money(1000, "JPY")
    ('1.250', '-0.05', '1000')
    """
    digits = MINOR_DIGITS_BY_CURRENCY[currency]
    if amount_minor < 0:
        return f"-{format_money(-amount_minor, currency)}"
    if not digits:
        return str(amount_minor)
    whole, fraction = divmod(amount_minor, 10**digits)
    return f"{whole}.{fraction:0{digits}d}"


def merchant_view(merchant: MerchantAmount) -> dict[str, str]:
    """The merchant amount as Money of the API."""
    return {
        "amount": format_money(merchant.amount_minor, merchant.currency),
        "currency": merchant.currency,
    }


def merchant_members(merchant: MerchantAmount | None) -> dict[str, Any]:
    """The members that a converted purchase adds to events and to calls of a programme; none without a
    conversion."""
    if merchant is None:
        return {}
    return {"merchant_amount": merchant_view(merchant), "conversion_rate": merchant.rate}


def read_rate(text: str) -> str | None:
    """The decimal string of a DE10: its first digit is the number of decimals of the others. ``None`` if it
    is malformed or zero.

    >>> read_rate("70061300"), read_rate("21234500")
    ('0.00613', '12345')
    """
    if re.fullmatch(r"[0-7]\d{7}", text, re.ASCII) is None or not int(text[1:]):
        return None
    decimals, number = int(text[0]), int(text[1:])
    if not decimals:
        return str(number)
    whole, fraction = divmod(number, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}".rstrip("0").rstrip(".")


def rate_of(merchant: MerchantAmount, billing_minor: int, billing_currency: str) -> str:
    """The DE10 with which a network converts ``merchant`` to ``billing_minor``: seven digits, rounded half
    up. A rate that DE10 cannot express becomes the nearest one that it can.

    >>> rate_of(MerchantAmount(100000, "JPY"), 61300, "EUR")
    '70061300'
    """
    above = billing_minor * 10 ** MINOR_DIGITS_BY_CURRENCY[merchant.currency]
    below = merchant.amount_minor * 10 ** MINOR_DIGITS_BY_CURRENCY[billing_currency]
    largest = 10**RATE_DIGITS - 1
    for decimals in range(RATE_DIGITS, -1, -1):
        number = (2 * above * 10**decimals + below) // (2 * below) if below else 0
        if number <= largest:
            return f"{decimals}{max(number, 1):0{RATE_DIGITS}d}"
    return f"0{largest}"
