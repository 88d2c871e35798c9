"""Checks of the demo: every answer is checked before the commentary mentions it."""

from __future__ import annotations

from typing import Any

from stanchion import Money, money

Json = dict[str, Any]


class DemoError(Exception):
    """An answer was not as expected. The message is one line."""


def eur(amount: str) -> Money:
    """A Money object in euros."""
    return money(amount, "EUR")


def expect(fact: str, seen: object, expected: object) -> None:
    """Raise DemoError unless ``seen`` equals ``expected``."""
    if seen != expected:
        raise DemoError(f"{fact}: {seen!r} instead of {expected!r}")
