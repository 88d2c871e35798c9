"""A funding account: its amounts and its open holds. Cards that share an account share its shard."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.cards.expiries import Expiries, add, due, move, remove
from engine.cards.hold import Hold
from engine.instant import to_text
from engine.money import format_minor


class Account(msgspec.Struct, kw_only=True):
    """``available = posted − held`` in minor units; ``version`` rises by 1 with each committed change of
    the balance."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    currency: str
    posted_minor: int = 0
    held_minor: int = 0
    version: int = 0
    holds: dict[str, Hold] = msgspec.field(default_factory=dict)
    expiries: Expiries = msgspec.field(default_factory=Expiries)
    """The holds ordered by their expiry."""

    def expired_holds(self, now_ms: int) -> tuple[Hold, ...]:
        """Open holds whose expiry has passed, the earliest first; for nearly every command there are none, at
        constant cost."""
        expiries = self.expiries
        if not expiries or now_ms < expiries[0].expires_ms:
            return ()
        return tuple(due(expiries, now_ms))


def place_hold(account: Account, hold: Hold) -> None:
    """Reserve ``hold.amount_minor``."""
    account.holds[hold.id] = hold
    account.held_minor += hold.amount_minor
    add(account.expiries, hold)


def close_hold(account: Account, hold_id: str) -> None:
    """Remove a hold and its amount."""
    hold = account.holds.pop(hold_id)
    account.held_minor -= hold.amount_minor
    remove(account.expiries, hold)


def resize_hold(account: Account, hold: Hold, amount_minor: int, expires_ms: int) -> None:
    """Change the amount and the expiry of a hold."""
    account.held_minor += amount_minor - hold.amount_minor
    hold.amount_minor = amount_minor
    if hold.expires_ms != expires_ms:
        hold.expires_ms = expires_ms
        move(account.expiries, hold)


def post(account: Account, amount_minor: int) -> None:
    """Credit (positive) or debit (negative) the posted balance."""
    account.posted_minor += amount_minor


def available_minor(account: Account, now_ms: int) -> int:
    """The available balance as of ``now_ms``: holds past their expiry do not count."""
    return account.posted_minor - _open_minor(account, now_ms)


def _open_minor(account: Account, now_ms: int) -> int:
    return account.held_minor - sum(hold.amount_minor for hold in account.expired_holds(now_ms))


def balance_view(account: Account | None, card_id: str, currency: str, now_ms: int) -> dict[str, Any]:
    """The public balance of a card as of ``now_ms``; an unfunded card has zeros and a null account."""
    posted_minor = account.posted_minor if account else 0
    held_minor = _open_minor(account, now_ms) if account else 0
    return {
        "card_id": card_id,
        "account_id": account.id if account else None,
        "currency": currency,
        "posted": format_minor(posted_minor),
        "held": format_minor(held_minor),
        "available": format_minor(posted_minor - held_minor),
        "as_of": to_text(now_ms),
        "version": account.version if account else 0,
    }
