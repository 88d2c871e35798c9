"""Card controls in requests and responses: a discriminated union on ``kind``, with one model for each shape.

``engine.controls`` is the table of kinds; a test compares the models with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from api.http.fields import Amount, Channel, Country, Mcc, ShownAmount, example
from api.http.validation import Input, View
from engine.controls import KINDS, Control
from engine.limits import CONTROL_VALUES_MAX, CONTROLS_MAX
from engine.money import parse_amount

COUNT_MAX = 2**31 - 1

_Values = Field(max_length=CONTROL_VALUES_MAX)


class MccControl(Input):
    """Merchant category codes (ISO 18245) that are allowed, or refused."""

    kind: Literal["mcc_allow", "mcc_deny"]
    values: Annotated[list[Mcc], _Values]

    def control(self) -> Control:
        """The engine's control."""
        return _control(self.kind, tuple(self.values))


class CountryControl(Input):
    """Merchant countries (ISO 3166-1 alpha-2) that are allowed, or refused."""

    kind: Literal["country_allow", "country_deny"]
    values: Annotated[list[Country], _Values]

    def control(self) -> Control:
        """The engine's control."""
        return _control(self.kind, tuple(self.values))


class ChannelControl(Input):
    """Channels that are allowed, or refused."""

    kind: Literal["channel_allow", "channel_deny"]
    values: Annotated[list[Channel], _Values]

    def control(self) -> Control:
        """The engine's control."""
        return _control(self.kind, tuple(self.values))


class AmountControl(Input):
    """The largest single authorization, or the largest sum of a day, in the card's currency."""

    kind: Literal["per_txn_cap", "per_day_amount_cap"]
    amount: Amount

    def control(self) -> Control:
        """The engine's control."""
        amount_minor = parse_amount(self.amount)
        assert amount_minor is not None, "the field's pattern admits valid amounts only"
        return _control(self.kind, amount_minor)


class CountControl(Input):
    """The largest number of purchases approved in a day."""

    kind: Literal["per_day_cap"]
    count: Annotated[int, Field(ge=0, le=COUNT_MAX), example(5)]

    def control(self) -> Control:
        """The engine's control."""
        return _control(self.kind, self.count)


def _control(kind: str, value: Any) -> Control:
    """The engine's control of ``kind``; each kind has one field."""
    return KINDS[kind](value)


ControlInput = Annotated[
    MccControl | CountryControl | ChannelControl | AmountControl | CountControl, Field(discriminator="kind")
]
ControlsInput = Annotated[list[ControlInput], Field(max_length=CONTROLS_MAX)]


class ControlView(View):
    """A control, with ``values``, ``amount`` or ``count`` according to its kind."""

    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})]
    values: Annotated[list[str], Field(default_factory=list)]
    amount: ShownAmount = "0.00"
    count: int = 0


def to_engine(controls: list[ControlInput]) -> tuple[Control, ...]:
    """The engine's controls, in the caller's order."""
    return tuple(control.control() for control in controls)


stored_controls = msgspec.json.Decoder(tuple[Control, ...]).decode
"""Decodes controls from the JSON in the database."""

encode_controls = msgspec.json.Encoder().encode
"""Encodes controls as the JSON in the database."""
