"""The plan of the demo's day: who buys what, where and at which hour. Pure and repeatable for a seed.

The decisions are made when the plan is carried out; the plan knows none of their outcomes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from engine.currencies import format_money
from stanchion import Money
from stanchion.inputs import SpendFields
from stanchion.records import Currency

FollowUp = Literal["none", "increment", "reverse", "present_less", "refund"]
Pool = Literal["everyday", "business", "students", "partner"]

PURCHASES: Final = 600
HOURS: Final = 24.0
# Share of the day's purchases in each hour, from midnight.
CURVE: Final = (2, 1, 1, 1, 1, 2, 5, 12, 16, 13, 12, 17, 26, 22, 14, 13, 15, 20, 26, 28, 22, 15, 9, 5)
RATES: Final = {"EUR": 1.0, "USD": 1.09, "GBP": 0.85, "JPY": 163.0, "CHF": 0.96, "SEK": 11.3}
"""Units of each currency for one euro, as the demo's network converts."""
BURST_HOUR: Final = 3.5
BURST_PURCHASES: Final = 6
BURST_SHOP: Final = "KIOSK-11"


@dataclass(frozen=True)
class Merchant:
    """A shop. ``low`` and ``high`` bound its amounts, in whole units of its currency."""

    name: str
    mcc: str
    country: str
    currency: str
    low: float
    high: float
    channel: Literal["pos", "ecommerce", "atm"] = "pos"
    hours: tuple[int, int] = (0, 24)
    weight: float = 1.0
    follow_ups: tuple[FollowUp, ...] = ("none",)
    pools: tuple[Pool, ...] = ("everyday", "business", "students", "partner")
    scenario: str | None = None

    @property
    def id(self) -> str:
        """Its merchant id at the acquirer (DE42, at most 15 characters)."""
        return "".join(letter for letter in self.name.upper() if letter.isalnum())[:12]


MERCHANTS: Final = (
    Merchant("Corner Bakery", "5462", "IE", "EUR", 2, 14, hours=(6, 18), weight=4),
    Merchant("Harbour Coffee", "5814", "IE", "EUR", 3, 9, hours=(6, 17), weight=5),
    Merchant("Grocer Lane", "5411", "IE", "EUR", 8, 120, hours=(8, 22), weight=5),
    Merchant("City Transit", "4111", "IE", "EUR", 2, 6, hours=(5, 24), weight=5),
    Merchant("Noodle Yard", "5812", "IE", "EUR", 11, 60, hours=(11, 23), weight=5),
    Merchant("Pharmacy Plus", "5912", "IE", "EUR", 4, 45, hours=(9, 21)),
    Merchant(
        "Fuel Station 12",
        "5541",
        "IE",
        "EUR",
        30,
        95,
        weight=1.5,
        follow_ups=("present_less", "none"),
        scenario="partial_approval",
    ),
    Merchant("Streamland", "5815", "NL", "EUR", 5, 16, "ecommerce", hours=(16, 24), weight=2),
    Merchant(
        "Bookshelf Online",
        "5942",
        "DE",
        "EUR",
        9,
        70,
        "ecommerce",
        hours=(9, 24),
        weight=2,
        follow_ups=("none", "none", "refund", "reverse"),
    ),
    Merchant(
        "Gadget Works", "5732", "US", "USD", 25, 900, "ecommerce", weight=1.5, follow_ups=("none", "refund")
    ),
    Merchant("Lucky Spin Casino", "7995", "MT", "EUR", 10, 200, "ecommerce", hours=(0, 24), weight=0.8),
    Merchant("Cash Point", "6011", "IE", "EUR", 20, 200, "atm", hours=(7, 24)),
    Merchant(
        "Hotel Meridian",
        "7011",
        "GB",
        "GBP",
        90,
        260,
        hours=(14, 24),
        follow_ups=("increment",),
        pools=("business", "everyday"),
    ),
    Merchant("Northern Rail", "4112", "GB", "GBP", 12, 140, hours=(5, 22), pools=("business", "students")),
    Merchant("Campus Canteen", "5812", "GB", "GBP", 4, 11, hours=(8, 15), weight=4, pools=("students",)),
    Merchant("Ramen Bar Shibuya", "5814", "JP", "JPY", 800, 2900, hours=(0, 14), pools=("business",)),
    Merchant("Alpine Taxi", "4121", "CH", "CHF", 12, 70, pools=("business",), weight=2),
    Merchant(
        "Fjord Outfitters", "5941", "SE", "SEK", 150, 1900, hours=(9, 19), pools=("business", "everyday")
    ),
)


@dataclass(frozen=True)
class Holder:
    """A cardholder with one card. ``funds`` is loaded at the start, in whole units of the card's currency."""

    given_name: str
    family_name: str
    pool: Pool
    funds: int


def _holders(pool: Pool, funds: tuple[int, ...], names: str) -> tuple[Holder, ...]:
    people = (name.split() for name in names.split(","))
    return tuple(
        Holder(given, family, pool, funds[number % len(funds)])
        for number, (given, family) in enumerate(people)
    )


HOLDERS: Final = (
    *_holders(
        "everyday",
        (900, 400, 60, 1500),
        "Ada Byron,Nora Quinn,Liam Doyle,Aoife Brennan,Mateo Silva,Clara Dubois,Jonas Weber,Priya Nair,"
        "Emma Lindqvist,Oscar Byrne,Louise Moreau,Tomas Novak,Lucia Ferrari,Ben Carter,Sofia Costa,"
        "Hugo Jansen,Maeve Walsh,Pavel Horak",
    ),
    *_holders(
        "business",
        (6000, 9000, 350),
        "Yuki Tanaka,Daniel Okafor,Elena Petrova,Marcus Reed,Amara Diallo,Victor Hale,Ruth Feldman,Leo Marsh",
    ),
    *_holders(
        "students",
        (120, 80, 45),
        "Isla Grant,Rohan Mehta,Freya Olsen,Callum Price,Zoe Turner,Adam Kowalski",
    ),
    *_holders(
        "partner",
        (2500, 1200),
        "Greta Vogel,Omar Haddad,Julia Santos,Niall Keane,Hanna Virtanen,Luca Romano,Mia Schneider,Erik Dahl",
    ),
)
CURRENCY_OF: Final[dict[Pool, Currency]] = {
    "everyday": "EUR",
    "business": "USD",
    "students": "GBP",
    "partner": "EUR",
}


@dataclass(frozen=True)
class Purchase:
    """One planned purchase. ``hour`` is a time of the day from 0 to 24; ``holder`` an index of
    ``HOLDERS``."""

    hour: float
    holder: int
    merchant: Merchant = field(repr=False)
    billed_minor: int
    merchant_minor: int
    follow_up: FollowUp = "none"
    merchant_id: str = ""

    def fields(self, card_id: str) -> SpendFields:
        """The simulated spend on ``card_id``."""
        merchant, billing = self.merchant, CURRENCY_OF[HOLDERS[self.holder].pool]
        spend: SpendFields = {
            "card_id": card_id,
            "amount": in_money(self.billed_minor, billing),
            "mcc": merchant.mcc,
            "merchant_name": merchant.name,
            "merchant_country": merchant.country,
            "merchant_id": self.merchant_id or merchant.id,
            "channel": merchant.channel,
        }
        if merchant.currency != billing:
            spend["merchant_amount"] = in_money(self.merchant_minor, merchant.currency)
        if merchant.channel == "pos":
            spend["entry_mode"] = "contactless" if self.billed_minor < 50_00 else "chip"
        if merchant.scenario is not None:
            spend["scenario"] = merchant.scenario
        return spend


def in_money(amount_minor: int, currency: str) -> Money:
    """A Money object of the API."""
    return {"amount": format_money(amount_minor, currency), "currency": currency}


def plan(seed: int, purchases: int = PURCHASES) -> list[Purchase]:
    """The purchases of one day in the order of their hours, a burst of card testing among them."""
    chance = random.Random(seed)
    planned = [_purchase(chance, hour) for hour in _hours(chance, purchases)]
    return sorted([*planned, *_burst(chance)], key=lambda each: each.hour)


def _hours(chance: random.Random, count: int) -> Iterator[float]:
    for hour in chance.choices(range(len(CURVE)), CURVE, k=count):
        yield hour + chance.random()


def _purchase(chance: random.Random, hour: float) -> Purchase:
    number = chance.randrange(len(HOLDERS))
    pool = HOLDERS[number].pool
    open_now = [
        merchant
        for merchant in MERCHANTS
        if pool in merchant.pools and merchant.hours[0] <= hour < merchant.hours[1]
    ]
    (merchant,) = chance.choices(open_now, [each.weight for each in open_now])
    # Small amounts are more frequent than large ones.
    units = merchant.low * (merchant.high / merchant.low) ** (chance.random() ** 1.5)
    return _at(merchant, number, hour, units, chance.choice(merchant.follow_ups))


def _at(
    merchant: Merchant, number: int, hour: float, units: float, follow_up: FollowUp, merchant_id: str = ""
) -> Purchase:
    scale = 1 if merchant.currency == "JPY" else 100
    merchant_minor = max(1, round(units * scale))
    billing = CURRENCY_OF[HOLDERS[number].pool]
    euros = merchant_minor / scale / RATES[merchant.currency]
    billed_minor = max(1, round(euros * RATES[billing] * 100))
    return Purchase(hour, number, merchant, billed_minor, merchant_minor, follow_up, merchant_id)


def _burst(chance: random.Random) -> Iterator[Purchase]:
    """Card testing: equal purchases within minutes on one card, which the programme's rule stops."""
    kiosk = Merchant("Gift Card Kiosk", "5947", "NL", "EUR", 20, 20, "ecommerce")
    number = chance.choice([index for index, each in enumerate(HOLDERS) if each.pool == "everyday"])
    for step in range(BURST_PURCHASES):
        yield _at(kiosk, number, BURST_HOUR + step * 0.05, 20.0, "none", BURST_SHOP)
