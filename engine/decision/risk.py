"""A risk score: points for unusual features of an authorization, added up to at most 100.

The score is small and explainable on purpose; programmes with other needs decide themselves (delegated
decisions).
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.commands import Authorize
from engine.money import HOME_COUNTRY

HIGH_RISK_MCCS: Final = frozenset({"4829", "5967", "6051", "6211", "7273", "7801", "7802", "7995"})
"""Money transfer, adult content, quasi-cash, securities, dating, lotteries and betting."""
EUROPE: Final = frozenset(
    [
        "AT",
        "BE",
        "BG",
        "CY",
        "CZ",
        "DE",
        "DK",
        "EE",
        "ES",
        "FI",
        "FR",
        "GR",
        "HR",
        "HU",
        "IE",
        "IT",
        "LT",
        "LU",
        "LV",
        "MT",
        "NL",
        "PL",
        "PT",
        "RO",
        "SE",
        "SI",
        "SK",
    ]
)
HIGH_AMOUNT_MINOR: Final = 500_000
REVIEW_FROM: Final = 50
BLOCK_FROM: Final = 90


def score(command: Authorize, cvv2_failures: int) -> int:
    """Points from 0 to 100; ``cvv2_failures`` is the number of wrong CVV2 values presented today."""
    points = 10 * min(cvv2_failures, 3)
    if command.channel == "moto" and not command.mit:
        points += 30
    if command.entry_mode == "magstripe":
        points += 25
    if command.mcc in HIGH_RISK_MCCS:
        points += 30
    if _abroad(command.merchant_country, command.currency):
        points += 15
    if command.amount_minor >= HIGH_AMOUNT_MINOR:
        points += 15
    return min(points, 100)


def amount_limit_minor(command: Authorize, cvv2_failures: int) -> int | None:
    """The largest amount that the score of ``command`` lets through; ``None`` if it blocks no amount."""
    if score(msgspec.structs.replace(command, amount_minor=HIGH_AMOUNT_MINOR), cvv2_failures) < BLOCK_FROM:
        return None
    blocked = score(msgspec.structs.replace(command, amount_minor=1), cvv2_failures) >= BLOCK_FROM
    return 0 if blocked else HIGH_AMOUNT_MINOR - 1


def action(points: int) -> str:
    """``allow``, ``review`` (approved and marked for review) or ``block``."""
    return "block" if points >= BLOCK_FROM else "review" if points >= REVIEW_FROM else "allow"


def _abroad(country: str, currency: str) -> bool:
    return country not in EUROPE if currency == "EUR" else country != HOME_COUNTRY.get(currency)
