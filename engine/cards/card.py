"""A card: what it is, which states it can be in, and its public representation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from engine.commands import is_message
from engine.controls import Control, control_view
from engine.instant import DAY_MS, to_text
from engine.limits import TOMBSTONE_DAYS, TOMBSTONES_FORGOTTEN_MAX
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


_UNDONE: Final = "u:"
_STAND_IN: Final = "s:"


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
    tombstones: dict[str, int] = msgspec.field(default_factory=dict)
    """References of authorizations that were reversed before they came, and when, oldest first: what is
    approved under them within ``TOMBSTONE_DAYS`` is not held."""
    declared: DeclaredBalance | None = None


def may_move(card: Card, state: str) -> bool:
    """Whether ``card`` may go to ``state``; staying where it is is always allowed."""
    return state == card.state or state in TRANSITIONS[card.state]


def has_tombstone(card: Card, references: Iterable[str], now_ms: int) -> bool:
    """Whether a network has reversed an authorization under one of ``references``."""
    if not card.tombstones:
        return False
    oldest_ms = now_ms - TOMBSTONE_DAYS * DAY_MS
    return any(card.tombstones.get(reference, oldest_ms) > oldest_ms for reference in references)


def edge_reversal_mark(message: str) -> str:
    """The tombstone of an edge's own reversal of ``message``: its network has reversed nothing."""
    return _UNDONE + message


def network_approval_mark(message: str) -> str:
    """The tombstone of an advice that approves in place of ``message``: the advice's amount counts, and
    neither the message nor an edge's own reversal of it changes that."""
    return _STAND_IN + message


def is_reversed_or_replaced(card: Card, references: Iterable[str], now_ms: int) -> bool:
    """Whether an authorization under ``references`` holds nothing when it comes: it was reversed before, or
    an advice has taken its place."""
    names = tuple(references)
    messages = [name for name in names if is_message(name)]
    marks = [mark(name) for name in messages for mark in (edge_reversal_mark, network_approval_mark)]
    return has_tombstone(card, (*names, *marks), now_ms)


def add_tombstones(card: Card, references: Iterable[str], now_ms: int) -> None:
    """Leave tombstones, and forget some that have expired: one command never pays for many."""
    tombstones = card.tombstones
    oldest_ms = now_ms - TOMBSTONE_DAYS * DAY_MS
    for reference in references:
        if tombstones.get(reference, oldest_ms) <= oldest_ms:
            tombstones.pop(reference, None)
            tombstones[reference] = now_ms
    for reference, recorded_ms in list(islice(tombstones.items(), TOMBSTONES_FORGOTTEN_MAX)):
        if recorded_ms > oldest_ms:
            return
        del tombstones[reference]


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
