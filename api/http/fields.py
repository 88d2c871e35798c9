"""Types of values in bodies and queries: ids, texts, amounts, countries, instants."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from iso3166 import countries_by_alpha2
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from api.http.validation import Input, View, broken
from engine.currencies import MINOR_DIGITS_BY_CURRENCY, MerchantAmount, parse_money
from engine.instant import to_ms, to_text
from engine.money import parse_amount

UUID_PATTERN: Final = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
"""As callers may write one; it is shown in lower case."""
AMOUNT_PATTERN: Final = r"^(0|[1-9][0-9]{0,15})(\.[0-9]{1,2})?$"
MERCHANT_AMOUNT_PATTERN: Final = r"^(0|[1-9][0-9]{0,15})(\.[0-9]{1,3})?$"
SHOWN_MERCHANT_AMOUNT_PATTERN: Final = r"^(0|[1-9][0-9]*)(\.[0-9]{2,3})?$"
RATE_PATTERN: Final = r"^[0-9]{1,7}(\.[0-9]{1,7})?$"
SHOWN_AMOUNT_PATTERN: Final = r"^-?(0|[1-9][0-9]*)\.[0-9]{2}$"
INSTANT_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
# No control characters, and at least one visible character.
TEXT_PATTERN: Final = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"

ID_EXAMPLE: Final = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
INSTANT_EXAMPLE: Final = "2026-11-21T10:15:30.123Z"


def example(value: Any) -> Any:
    """A field whose description shows ``value``."""
    return Field(examples=[value])


Id = Annotated[
    str,
    StringConstraints(pattern=UUID_PATTERN),
    AfterValidator(str.lower),
    Field(json_schema_extra={"format": "uuid"}),
    example(ID_EXAMPLE),
]
Email = Annotated[
    str,
    StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}$"),
    example("ada@example.com"),
]
Currency = Literal["EUR", "GBP", "USD"]
Amount = Annotated[str, StringConstraints(pattern=AMOUNT_PATTERN), example("12.50")]
ShownAmount = Annotated[str, StringConstraints(pattern=SHOWN_AMOUNT_PATTERN), example("12.50")]
Instant = Annotated[
    str,
    StringConstraints(pattern=INSTANT_PATTERN),
    Field(json_schema_extra={"format": "date-time"}),
    example(INSTANT_EXAMPLE),
]
Mcc = Annotated[str, StringConstraints(pattern="^[0-9]{4}$"), example("5411")]
Channel = Literal["pos", "ecommerce", "atm", "moto"]
MerchantId = Annotated[
    str,
    StringConstraints(max_length=15, pattern=r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"),
    example("MERCHANT0000001"),
]
"""The acquirer's id of a merchant, as in DE42 of ISO 8583, without its padding of blanks."""


# Texts of one line with at least one visible character.
Text20 = Annotated[str, StringConstraints(min_length=1, max_length=20, pattern=TEXT_PATTERN)]
Text100 = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=TEXT_PATTERN)]
Text200 = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=TEXT_PATTERN)]
Text255 = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=TEXT_PATTERN)]


def _country(code: str) -> str:
    if code not in countries_by_alpha2:
        raise broken("not_allowed", "The value must be a country code of ISO 3166-1 alpha-2 in capitals.")
    return code


def _day(day: str) -> str:
    try:
        date.fromisoformat(day)
    except ValueError:
        raise broken("format", "The value must be a date, YYYY-MM-DD.") from None
    return day


Country = Annotated[str, StringConstraints(pattern="^[A-Z]{2}$"), AfterValidator(_country), example("IE")]
Day = Annotated[
    str,
    StringConstraints(pattern=r"^(19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}$"),
    AfterValidator(_day),
    Field(json_schema_extra={"format": "date"}),
    example("1990-05-17"),
]


def _https_address(url: str) -> str:
    rule = "The value must be an https address without user information or fragment."
    try:
        parts = urlsplit(url)
        well_formed = (
            parts.scheme == "https" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        raise broken("format", rule) from None
    if not well_formed or parts.username is not None or parts.password is not None or parts.fragment:
        raise broken("format", rule)
    return url


HttpsAddress = Annotated[
    str,
    StringConstraints(max_length=2048, pattern=r"^https://[\x21-\x7e]+$"),
    AfterValidator(_https_address),
    example("https://decisions.example.com/authorize"),
]


def _instant(value: str) -> str:
    if parse_instant(value) is None:
        raise broken(
            "format", "The value must be an instant of ISO 8601 with its offset, like 2026-11-21T10:15:30Z."
        )
    return value


InstantInput = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(Z|[+-][0-9]{2}:[0-9]{2})$"),
    AfterValidator(_instant),
    Field(json_schema_extra={"format": "date-time"}),
    example(INSTANT_EXAMPLE),
]
"""An instant as callers may write it: any offset, with or without fractions."""


def parse_instant(value: str) -> datetime | None:
    """The aware instant that ``value`` (ISO 8601 with an offset) names, or ``None``."""
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    # In the first and last years, an offset could lead out of the range of datetime.
    return instant if instant.tzinfo is not None and 1970 <= instant.year < 9999 else None


class MoneyInput(Input):
    """An amount to be read: a canonical, non-negative decimal string."""

    amount: Amount
    currency: Currency

    @property
    def minor(self) -> int:
        """The amount in minor units."""
        minor = parse_amount(self.amount)
        assert minor is not None, "the field's pattern admits valid amounts only"
        return minor


class MoneyView(View):
    """An amount as it is shown, always with two decimals."""

    amount: ShownAmount
    currency: Currency


class MerchantMoneyInput(Input):
    """An amount in any currency of ISO 4217 with 0, 2 or 3 decimals: a canonical, positive decimal string."""

    amount: Annotated[str, StringConstraints(pattern=MERCHANT_AMOUNT_PATTERN), example("2500")]
    currency: Annotated[str, StringConstraints(pattern="^[A-Z]{3}$"), example("JPY")]

    @model_validator(mode="after")
    def _of_the_currency(self) -> MerchantMoneyInput:
        if self.currency not in MINOR_DIGITS_BY_CURRENCY:
            rule = "The value must be a currency code of ISO 4217 with 0, 2 or 3 decimals, in capitals."
            raise broken("not_allowed", rule, at="/currency")
        minor = parse_money(self.amount, self.currency)
        if minor is None:
            raise broken("format", "The amount has more decimals than its currency.", at="/amount")
        if minor == 0:
            raise broken("range", "The amount must be more than zero.", at="/amount")
        return self

    @property
    def merchant_amount(self) -> MerchantAmount:
        """The amount in minor units, still without a rate."""
        minor = parse_money(self.amount, self.currency)
        assert minor is not None, "the validator has parsed it"
        return MerchantAmount(minor, self.currency)


class MerchantMoneyView(View):
    """An amount in the currency of the merchant, with all decimals of that currency."""

    amount: Annotated[str, StringConstraints(pattern=SHOWN_MERCHANT_AMOUNT_PATTERN), example("2500")]
    currency: Annotated[str, StringConstraints(pattern="^([A-Z]{3}|[0-9]{3})$"), example("JPY")]


ShownRate = Annotated[str, StringConstraints(pattern=RATE_PATTERN), example("0.00613")]
"""A conversion rate: one unit of the merchant's currency in the currency of the card."""


def separated(value: object) -> list[str]:
    """The values of a query parameter that separates them by commas.

    FastAPI passes a list, because the declared type is a sequence; repeated parameters were refused before.
    """
    return (
        ",".join(str(each) for each in value).split(",") if isinstance(value, list) else str(value).split(",")
    )


def shown_instant(value: datetime) -> str:
    """A timestamp of the database in the form of every timestamp on the API."""
    return to_text(to_ms(value))
