"""Amounts and other values that several records share."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict

Currency = Literal["EUR", "GBP", "USD"]
Decision = Literal["approved", "declined"]


class Money(TypedDict):
    """A non-negative amount."""

    amount: str
    currency: str
