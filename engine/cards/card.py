"""A card: its data, its states, its tombstones and its public representation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from engine.commands import Replacement, is_message
from engine.controls import Control, control_view
from engine.instant import DAY_MS, to_text
from engine.limits import TOMBSTONE_DAYS, TOMBSTONES_DELETED_MAX
from engine.money import format_minor
from engine.rules.model import Rule

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "unactivated": frozenset({"active", "terminated", "lost", "stolen"}),
    "active": frozenset({"suspended", "terminated", "lost", "stolen"}),
    "suspended": frozenset({"active", "terminated", "lost", "stolen"}),
    "terminated": frozenset(),
    "lost": frozenset(),
    "stolen": frozenset(),
}
"""The next states of each card state; a state that is not listed is an illegal transition."""

END_STATES: Final[dict[Replacement, str]] = {
    "lost": "lost",
    "stolen": "stolen",
    "damaged": "terminated",
    "expired": "terminated",
}
"""The final state of a replaced card, by the reason of its replacement."""

_EDGE_REVERSAL: Final = "u:"
_NETWORK_APPROVAL: Final = "s:"


class DeclaredBalance(msgspec.Struct, frozen=True, gc=False):
    """The amount that a card may spend in stand-in, as its programme declared it. It does not expire; a new
    declaration starts with nothing consumed. Amounts in minor units."""

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
    """References of messages that were reversed before they came, with the times of the reversals, oldest
    first: an approval under them within ``TOMBSTONE_DAYS`` is not held. Marked references are those of
    ``edge_reversal_mark`` and ``network_approval_mark``."""
    declared: DeclaredBalance | None = None
    replaces: str | None = None
    """The card that this one replaces."""
    replaced_by: str | None = None
    """The card that replaces this one."""
    rules: tuple[Rule, ...] = ()
    """The card's own authorization rules, except retired ones."""


def may_become(card: Card, state: str) -> bool:
    """Whether ``card`` may change to ``state``; its present state is always allowed."""
    return state == card.state or state in TRANSITIONS[card.state]


def has_tombstone(card: Card, references: Iterable[str], now_ms: int) -> bool:
    """Whether one of ``references`` has a tombstone that has not expired."""
    if not card.tombstones:
        return False
    oldest_ms = now_ms - TOMBSTONE_DAYS * DAY_MS
    return any(card.tombstones.get(reference, oldest_ms) > oldest_ms for reference in references)


def edge_reversal_mark(message: str) -> str:
    """The tombstone of an edge's own reversal of ``message``, which is not a reversal by the network."""
    return _EDGE_REVERSAL + message


def network_approval_mark(message: str) -> str:
    """The tombstone of a network's own approval in place of ``message``: the advised amount counts, and
    neither the message nor an edge's reversal of it changes that."""
    return _NETWORK_APPROVAL + message


def is_reversed_or_replaced(card: Card, references: Iterable[str], now_ms: int) -> bool:
    """Whether a message with ``references`` was reversed before it came, or replaced by an advice. Nothing is
    held for it."""
    names = tuple(references)
    messages = [name for name in names if is_message(name)]
    marks = [mark(name) for name in messages for mark in (edge_reversal_mark, network_approval_mark)]
    return has_tombstone(card, (*names, *marks), now_ms)


def add_tombstones(card: Card, references: Iterable[str], now_ms: int) -> None:
    """Add tombstones, and delete at most ``TOMBSTONES_DELETED_MAX`` expired ones, which bounds the cost of
    a command."""
    tombstones = card.tombstones
    oldest_ms = now_ms - TOMBSTONE_DAYS * DAY_MS
    for reference in references:
        if tombstones.get(reference, oldest_ms) <= oldest_ms:
            tombstones.pop(reference, None)
            tombstones[reference] = now_ms
    for reference, recorded_ms in list(islice(tombstones.items(), TOMBSTONES_DELETED_MAX)):
        if recorded_ms > oldest_ms:
            return
        del tombstones[reference]


def card_view(card: Card) -> dict[str, Any]:
    """The public representation without the cardholder's personal data, which the owner does not keep."""
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
        "replaces": card.replaces,
        "replaced_by": card.replaced_by,
        "created_at": to_text(card.created_ms),
    }


def declared_remaining(card: Card) -> int | None:
    """The unused part of the declared balance of ``card``; ``None`` when none was declared."""
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
