"""``stanchion cards``: issued cards as a table, and one card with its balance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ops.commands.tables import facts, second, table
from stanchion.records import Balance, Card

COLUMNS: Final = ("CREATED", "CARD", "LAST 4", "EXPIRY", "NETWORK", "CURRENCY", "STATE", "CARDHOLDER")


def lines(cards: Iterable[Card]) -> list[str]:
    """The cards as a table for people."""
    return table(COLUMNS, map(_row, cards))


def described(card: Card, balance: Balance) -> list[str]:
    """One card with its balance, for people."""
    amounts = {name: f"{balance[name]} {balance['currency']}" for name in ("available", "posted", "held")}
    state = card["state"] if card["state_reason"] is None else f"{card['state']} ({card['state_reason']})"
    return facts(
        (
            ("card", card["id"]),
            ("number", f"ends in {card['last4']}, {card['network']}, until {_expiry(card)}"),
            ("state", state),
            ("cardholder", f"{card['cardholder_name']} ({card['cardholder_id']})"),
            ("product", card["card_product_id"]),
            ("programme", card["programme_id"]),
            ("account", balance["account_id"]),
            *amounts.items(),
            ("controls", ", ".join(control["kind"] for control in card["controls"]) or "none"),
            ("reference", card["external_ref"]),
            ("replaces", card["replaces"]),
            ("replaced by", card["replaced_by"]),
            ("created", second(card["created_at"])),
        )
    )


def _row(card: Card) -> tuple[str, ...]:
    return (
        second(card["created_at"]),
        card["id"],
        card["last4"],
        _expiry(card),
        card["network"],
        card["currency"],
        card["state"],
        card["cardholder_name"],
    )


def _expiry(card: Card) -> str:
    return f"{card['exp_month']:02d}/{card['exp_year']}"
