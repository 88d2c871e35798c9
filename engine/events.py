"""Event payloads: what customers are told, field by field (spec 6.4; contract, section 9).

An event is written in the transaction of its cause. ``data`` is final here: every delivery of the event
carries these bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.account import Account
from engine.card import Card, card_view
from engine.commands import Authorize
from engine.decide import Decision
from engine.hold import Hold
from engine.ids import Derived, derive
from engine.instant import to_text
from engine.money import format_minor
from engine.programme import ProgrammeConfig


class Event(msgspec.Struct, frozen=True):
    """One thing to tell: its id, its type and its ``data`` as JSON text."""

    id: str
    type: str
    data: str


def event(id_: str, type_: str, data: dict[str, Any]) -> Event:
    """An event with ``data`` in the exact JSON that will be delivered."""
    return Event(id_, type_, msgspec.json.encode(data).decode())


def authorization_decided(command: Authorize, card: Card, decision: Decision, hold_id: str | None) -> Event:
    """``authorization.decided``, once for every decision."""
    data: dict[str, Any] = {
        "authorization_id": command.id,
        "card_id": card.id,
        "programme_id": card.programme_id,
        "amount": format_minor(command.amount_minor),
        "currency": command.currency,
        "decision": decision.decision,
        "approved_amount": format_minor(decision.approved_minor),
        "decided_by": decision.decided_by,
        "risk": {"score": decision.risk_score, "action": decision.risk_action},
        "hold_id": hold_id,
        "network_txn_id": command.wire.network_txn_id,
    }
    if decision.reason:
        data["decline_reason"] = decision.reason
    return event(derive(command.id, Derived.EVENT_FIRST), "authorization.decided", data)


def hold_created(command: Authorize, account: Account, hold: Hold, now_ms: int) -> Event:
    """``ledger.hold.created``; the balance figures are those just after the hold was placed."""
    data = {
        "hold_id": hold.id,
        "account_id": account.id,
        "authorization_id": command.id,
        "card_id": hold.card_id,
        "amount": format_minor(hold.amount_minor),
        "asset": account.currency,
        "held": format_minor(account.held_minor),
        "available": format_minor(account.posted_minor - account.held_minor),
        "expires_at": to_text(hold.expires_ms),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_SECOND), "ledger.hold.created", data)


def entry_posted(
    root: str, entry_id: str, account: Account, amount_minor: int, authorization_id: str | None, now_ms: int
) -> Event:
    """``ledger.entry.posted`` for a credit to a card's account; ``available`` is that just after it."""
    data = {
        "entry_id": entry_id,
        "account_id": account.id,
        "authorization_id": authorization_id,
        "direction": "credit",
        "amount": format_minor(amount_minor),
        "asset": account.currency,
        "available": format_minor(account.posted_minor - account.held_minor),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(root, Derived.EVENT_THIRD), "ledger.entry.posted", data)


def card_event(root: str, type_: str, card: Card) -> Event:
    """``card.created`` and ``card.updated``: the card without the cardholder's personal data."""
    return event(derive(root, Derived.EVENT_FIRST), type_, card_view(card))


def programme_event(root: str, type_: str, config: ProgrammeConfig, changed: list[str], now_ms: int) -> Event:
    """``programme.*``: the version and the names of what changed, never the values."""
    data = {
        "programme_id": config.id,
        "version": config.version,
        "changed": changed,
        "occurred_at": to_text(now_ms),
    }
    return event(derive(root, Derived.EVENT_FIRST), type_, data)
