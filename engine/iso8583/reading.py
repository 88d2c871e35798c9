"""Strict readers of single fields. They raise ``ElementError`` for a missing or malformed field."""

from __future__ import annotations

from collections.abc import Mapping

from engine.iso8583.elements import ElementError
from engine.pan import Masked, Pan

Fields = Mapping[int, str]


def present(fields: Fields, number: int) -> str:
    """The text of a mandatory field."""
    value = fields.get(number)
    if not value or value.isspace():
        raise ElementError(number, "is missing")
    return value


def digits(fields: Fields, number: int) -> str:
    """A mandatory field of digits."""
    value = fields.get(number)
    if value is None or not value.isdecimal():
        present(fields, number)
        raise ElementError(number, "is not numeric")
    return value


def optional_digits(fields: Fields, number: int) -> str:
    """The digits of a field; empty if it is absent."""
    return digits(fields, number) if number in fields else ""


def card_number(fields: Fields) -> Pan:
    """DE2, masked."""
    pan = digits(fields, 2)
    if not 12 <= len(pan) <= 19:
        raise ElementError(2, "has not 12 to 19 digits")
    return Pan(pan)


def masked(value: str | None) -> Masked | None:
    """``value`` in a type whose ``repr`` hides it."""
    return None if value is None else Masked(value)
