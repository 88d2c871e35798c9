"""A card: what it is, which states it can be in, and its public representation."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.controls import Control, control_view
from engine.instant import to_text
from engine.money import format_minor

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "unactivated": frozenset({"active", "terminated", "lost", "stolen"}),
    "active": frozenset({"suspended", "terminated", "lost", "stolen"}),
    "suspended": frozenset({"active", "terminated", "lost", "stolen"}),
    "terminated": frozenset(),
    "lost": frozenset(),
    "stolen": frozenset(),
}
"""Card state: from each to which; an absent pair is the illegal move (contract, section 5)."""


class DeclaredBalance(msgspec.Struct, frozen=True, gc=False):
    """What a programme says a card may spend while its own decisions cannot be had (contract, section 8).
    It never expires; a new declaration starts with nothing consumed. Amounts in minor units."""

    balance_minor: int
    consumed_minor: int
    declared_ms: int


class Card(msgspec.Struct, kw_only=True):
    """One card in its owner's memory. ``seq`` is the number of its last journaled command; ``day_*`` count
    the approvals of ``day``."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    card_product_id: str
    cardholder_id: str
    account_id: str | None
    network: str
    currency: str
    iin: str
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: str
    controls: tuple[Control, ...]
    created_ms: int
    state_reason: str | None = None
    cardholder_active: bool = True
    seq: int = 0
    day: str = ""
    day_count: int = 0
    day_amount_minor: int = 0
    cvv2_failures: int = 0
    tombstones: frozenset[str] = frozenset()
    """References of authorizations that were reversed before they came: what is approved under them is not
    held."""
    declared: DeclaredBalance | None = None


def may_move(card: Card, state: str) -> bool:
    """Whether ``card`` may go to ``state``; staying where it is is always allowed."""
    return state == card.state or state in TRANSITIONS[card.state]


def card_view(card: Card) -> dict[str, Any]:
    """The public representation (spec 2.5) without the cardholder's personal data, which owners do not
    keep."""
    return {
        "id": card.id,
        "programme_id": card.programme_id,
        "card_product_id": card.card_product_id,
        "cardholder_id": card.cardholder_id,
        "pan_ref": card.pan_ref,
        "last4": card.last4,
        "iin": card.iin,
        "exp_month": card.exp_month,
        "exp_year": card.exp_year,
        "state": card.state,
        "state_reason": card.state_reason,
        "controls": [control_view(control) for control in card.controls],
        "funding_account_id": card.account_id,
        "cvk_generation": card.cvk_generation,
        "network": card.network,
        "currency": card.currency,
        "created_at": to_text(card.created_ms),
    }


def declared_remaining(card: Card) -> int | None:
    """What stand-in may still approve on ``card``; ``None`` when nothing was declared."""
    declared = card.declared
    return None if declared is None else max(0, declared.balance_minor - declared.consumed_minor)


def declared_balance_view(card_id: str, currency: str, declared: DeclaredBalance) -> dict[str, Any]:
    """The public representation of a declared balance."""
    remaining_minor = max(0, declared.balance_minor - declared.consumed_minor)
    amounts = {
        "balance": declared.balance_minor,
        "consumed": declared.consumed_minor,
        "remaining": remaining_minor,
    }
    shown = {name: {"amount": format_minor(minor), "currency": currency} for name, minor in amounts.items()}
    return {"card_id": card_id, **shown, "declared_at": to_text(declared.declared_ms)}
