"""Conditions of authorization rules in requests and responses: a discriminated union on ``attribute``, with
one model for each shape.

``engine.rules.attributes`` is the table of attributes and operators; a test compares the models with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Discriminator, Field, Tag, model_validator

from api.authorization_rules.values import (
    AcquirerId,
    AnyCurrency,
    Count,
    LocalTime,
    MccOrRange,
    MerchantName,
    Weekday,
    Window,
)
from api.http.fields import Amount, Channel, Country, MerchantId
from api.http.validation import Input, View, broken
from engine.commands import EntryMode
from engine.limits import RULE_CARD_AGE_DAYS_MAX, RULE_CONDITIONS_MAX, RULE_VALUES_MAX
from engine.money import parse_amount
from engine.rules.model import Condition, Measure, Velocity, VelocityOf

Comparison = Literal["eq", "lt", "lte", "gt", "gte", "between"]
Membership = Literal["eq", "ne", "in", "not_in"]

_LISTING: Final = frozenset({"in", "not_in", "between"})
"""Operators whose value is a list."""

V = TypeVar("V")


def _shape(value: object) -> str:
    return "list" if isinstance(value, list) else "single"


_Values = Field(min_length=1, max_length=RULE_VALUES_MAX)
OneOrMore = Annotated[
    Annotated[V, Tag("single")] | Annotated[list[V], _Values, Tag("list")], Discriminator(_shape)
]
"""One value, or a list of values for the operators that need one."""


class _Condition(Input):
    """An attribute, an operator and a value. The subclasses narrow all three."""

    attribute: str
    op: str
    value: Any

    @model_validator(mode="after")
    def _value_fits_operator(self) -> Any:
        listing = self.op in _LISTING
        if isinstance(self.value, list) != listing:
            shape = "a list of values" if listing else "a single value"
            raise broken("type", f"With the operator {self.op}, the value is {shape}.", at="/value")
        if self.op == "between":
            self._require_bounds()
        return self

    def _require_bounds(self) -> None:
        """Refuse bounds that are no pair or in the wrong order. Attributes that come round again, such as
        the time of day, have no order."""
        if len(self.value) != 2:
            rule = "With the operator between, the value is a pair: the least and the greatest value."
            raise broken("length", rule, at="/value")
        least, greatest = (self.stored(each) for each in self.value)
        if self._ordered and least > greatest:
            raise broken("range", "The least value must not be above the greatest.", at="/value")

    @property
    def _ordered(self) -> bool:
        return True

    def stored(self, value: Any) -> Any:
        """The engine's form of one value."""
        return value

    @property
    def stored_value(self) -> Any:
        """The engine's form of the value: lists as tuples."""
        if isinstance(self.value, list):
            return tuple(self.stored(each) for each in self.value)
        return self.stored(self.value)

    def condition(self) -> Condition:
        """The engine's condition."""
        return Condition(self.attribute, self.op, self.stored_value)  # type: ignore[arg-type]


class AmountCondition(_Condition):
    """The requested amount, in the card's currency."""

    attribute: Literal["amount"]
    op: Comparison
    value: OneOrMore[Amount]

    def stored(self, value: str) -> int:
        return _minor(value)


class MccCondition(_Condition):
    """The merchant category code (ISO 18245). Lists may hold ranges."""

    attribute: Literal["mcc"]
    op: Membership
    value: OneOrMore[MccOrRange]

    @model_validator(mode="after")
    def _range_in_list_only(self) -> Any:
        if isinstance(self.value, str) and "-" in self.value:
            raise broken("format", "Only the operators in and not_in take ranges.", at="/value")
        return self


class CountryCondition(_Condition):
    """The merchant's country (ISO 3166-1 alpha-2)."""

    attribute: Literal["merchant_country"]
    op: Membership
    value: OneOrMore[Country]


class CurrencyCondition(_Condition):
    """The currency that the merchant charges (ISO 4217); the card's, if nothing was converted."""

    attribute: Literal["merchant_currency"]
    op: Membership
    value: OneOrMore[AnyCurrency]


class ChannelCondition(_Condition):
    """The channel of the purchase."""

    attribute: Literal["channel"]
    op: Membership
    value: OneOrMore[Channel]


class EntryModeCondition(_Condition):
    """How the card's data came into the message. A message without an entry mode equals no value."""

    attribute: Literal["entry_mode"]
    op: Membership
    value: OneOrMore[EntryMode]


class NetworkCondition(_Condition):
    """The network of the card."""

    attribute: Literal["network"]
    op: Membership
    value: OneOrMore[Literal["visa", "mastercard"]]


class AcquirerCondition(_Condition):
    """The acquiring institution (ISO 8583 DE32)."""

    attribute: Literal["acquirer_id"]
    op: Membership
    value: OneOrMore[AcquirerId]


class MerchantCondition(_Condition):
    """The acquirer's id of the merchant (ISO 8583 DE42), without padding."""

    attribute: Literal["merchant_id"]
    op: Membership
    value: OneOrMore[MerchantId]


class MerchantNameCondition(_Condition):
    """The merchant's name, compared without case, accents and punctuation."""

    attribute: Literal["merchant_name"]
    op: Literal["eq", "contains", "starts_with", "in"]
    value: OneOrMore[MerchantName]


class FlagCondition(_Condition):
    """A fact about the purchase."""

    attribute: Literal[
        "partial_allowed", "mit", "authenticated", "card_present", "cvv2_matched", "first_at_merchant"
    ]
    """`partial_allowed`: the terminal accepts a partial approval; `mit`: the merchant initiated the purchase;
    `authenticated`: 3-D Secure authenticated it; `card_present`: a terminal read the card; `cvv2_matched`:
    the message has the right CVV2; `first_at_merchant`: the card has not bought from this merchant before."""
    op: Literal["eq"]
    value: bool


class RiskScoreCondition(_Condition):
    """The risk score, 0 to 100."""

    attribute: Literal["risk_score"]
    op: Comparison
    value: OneOrMore[Annotated[int, Field(ge=0, le=100)]]


class CardAgeCondition(_Condition):
    """Whole days since the card was issued."""

    attribute: Literal["card_age_days"]
    op: Comparison
    value: OneOrMore[Annotated[int, Field(ge=0, le=RULE_CARD_AGE_DAYS_MAX)]]


class LocalTimeCondition(_Condition):
    """The time of day in the programme's time zone, without the end of the range. A range may go past
    midnight."""

    attribute: Literal["local_time"]
    op: Literal["between"]
    value: OneOrMore[LocalTime]

    @property
    def _ordered(self) -> bool:
        return False


class WeekdayCondition(_Condition):
    """The day of the week in the programme's time zone. A range includes both ends and may go past Sunday."""

    attribute: Literal["weekday"]
    op: Literal["in", "between"]
    value: OneOrMore[Weekday]

    @property
    def _ordered(self) -> bool:
        return False


CountedCondition = Annotated[
    AmountCondition
    | MccCondition
    | CountryCondition
    | ChannelCondition
    | EntryModeCondition
    | MerchantCondition,
    Field(discriminator="attribute"),
]
"""A condition on the purchases that a velocity counts."""


def _measured(value: object) -> str:
    return "amount" if isinstance(value, str) else "number"


_Measured = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Amount, Tag("amount")], Discriminator(_measured)
]


class VelocityCondition(_Condition):
    """How much the card, or its account, has bought within a window, this purchase included."""

    attribute: Literal["velocity"]
    measure: Measure
    """`count`, `amount`: approved purchases and the sum of their amounts; `declines`: declined purchases;
    `distinct_merchants`, `distinct_countries`: merchants and countries of approved purchases."""
    window: Window
    """A trailing window as an ISO 8601 duration, from `PT10S` to `P90D`; or the current `day`, `week`,
    `month` or `year` in the programme's time zone, or the `lifetime`."""
    where: Annotated[list[CountedCondition], Field(default_factory=list, max_length=RULE_CONDITIONS_MAX)]
    """Only purchases for which all these conditions hold are counted; by default all."""
    of: VelocityOf = "card"
    """`account`: the purchases of all cards on the card's account."""
    op: Comparison
    value: OneOrMore[_Measured]
    """For the measure `amount` an amount in the card's currency, otherwise a number."""

    @model_validator(mode="after")
    def _value_fits_measure(self) -> Any:
        values = self.value if isinstance(self.value, list) else [self.value]
        if any(isinstance(each, str) != (self.measure == "amount") for each in values):
            kind = "an amount" if self.measure == "amount" else "a number"
            raise broken("type", f"With the measure {self.measure}, the value is {kind}.", at="/value")
        return self

    def stored(self, value: str | int) -> int:
        return _minor(value) if isinstance(value, str) else value

    def condition(self) -> Condition:
        where = tuple(each.condition() for each in self.where)
        velocity = Velocity(self.measure, self.window, where, self.of)
        return Condition(self.attribute, self.op, self.stored_value, velocity)


def _minor(amount: str) -> int:
    minor = parse_amount(amount)
    assert minor is not None, "the field's pattern admits valid amounts only"
    return minor


ConditionInput = Annotated[
    AmountCondition
    | MccCondition
    | CountryCondition
    | CurrencyCondition
    | ChannelCondition
    | EntryModeCondition
    | NetworkCondition
    | AcquirerCondition
    | MerchantCondition
    | MerchantNameCondition
    | FlagCondition
    | RiskScoreCondition
    | CardAgeCondition
    | LocalTimeCondition
    | WeekdayCondition
    | VelocityCondition,
    Field(discriminator="attribute"),
]
ConditionsInput = Annotated[list[ConditionInput], Field(min_length=1, max_length=RULE_CONDITIONS_MAX)]


class CountedConditionView(View):
    """A condition on the purchases that a velocity counts."""

    attribute: str
    op: str
    value: str | list[str]


class ConditionView(View):
    """A condition. Those on `velocity` also have `measure`, `window`, `of` and `where`."""

    attribute: str
    measure: Measure = "count"
    window: str = "day"
    of: VelocityOf = "card"
    where: Annotated[list[CountedConditionView], Field(default_factory=list)]
    op: str
    value: bool | int | str | list[int] | list[str]


def to_engine(conditions: list[ConditionInput]) -> tuple[Condition, ...]:
    """The engine's conditions, in the caller's order."""
    return tuple(condition.condition() for condition in conditions)
