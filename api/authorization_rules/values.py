"""Types of the values in conditions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from api.http.fields import Text100, example
from api.http.validation import broken
from engine.currencies import MINOR_DIGITS_BY_CURRENCY
from engine.rules.attributes import normalized_name
from engine.rules.windows import is_window

COUNT_MAX: Final = 2**31 - 1
_WINDOW_PATTERN: Final = (
    "^(day|week|month|year|lifetime"
    "|P([0-9]{1,3}W)?([0-9]{1,4}D)?(T([0-9]{1,5}H)?([0-9]{1,7}M)?([0-9]{1,8}S)?)?)$"
)


def _mcc_range(value: str) -> str:
    begin, _, end = value.partition("-")
    if end and begin > end:
        raise broken("range", "The range must not end before it begins.")
    return value


def _currency(code: str) -> str:
    if code not in MINOR_DIGITS_BY_CURRENCY:
        rule = "The value must be a currency code of ISO 4217 with 0, 2 or 3 decimals, in capitals."
        raise broken("not_allowed", rule)
    return code


def _comparable(name: str) -> str:
    if not normalized_name(name):
        raise broken("format", "The value must have a letter or a digit.")
    return name


def _window(text: str) -> str:
    if not is_window(text):
        raise broken("range", "A trailing window lasts at least PT10S and at most P90D.")
    return text


MccOrRange = Annotated[
    str,
    StringConstraints(pattern="^[0-9]{4}(-[0-9]{4})?$"),
    AfterValidator(_mcc_range),
    example("7995"),
]
AnyCurrency = Annotated[
    str, StringConstraints(pattern="^[A-Z]{3}$"), AfterValidator(_currency), example("JPY")
]
AcquirerId = Annotated[str, StringConstraints(pattern="^[0-9]{1,11}$"), example("400000")]
MerchantName = Annotated[Text100, AfterValidator(_comparable), example("Corner Shop")]
LocalTime = Annotated[str, StringConstraints(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$"), example("22:30")]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
Window = Annotated[str, StringConstraints(pattern=_WINDOW_PATTERN), AfterValidator(_window), example("PT10M")]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX), example(3)]
Slug = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{2,39}$"), example("too_many_purchases")]
"""The issuer's own reason."""
