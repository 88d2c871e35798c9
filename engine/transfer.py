"""A transfer between an account and its programme's funding source: its public representation."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from engine.instant import to_text
from engine.money import format_minor

Direction = Literal["credit", "debit"]
"""Seen from the card's account: a credit raises its balance."""
TransferKind = Literal["load", "unload", "adjustment", "fee"]

DIRECTIONS: Final[dict[TransferKind, tuple[Direction, ...]]] = {
    "load": ("credit",),
    "unload": ("debit",),
    "adjustment": ("credit", "debit"),
    "fee": ("debit",),
}
"""The directions of each kind of transfer."""

OPPOSITE: Final[dict[Direction, Direction]] = {"credit": "debit", "debit": "credit"}


class PostedTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """A posted transfer. Amounts in minor units; instants in milliseconds since the epoch."""

    id: str
    account_id: str
    programme_id: str
    direction: Direction
    kind: TransferKind
    amount_minor: int
    currency: str
    external_ref: str | None
    description: str | None
    metadata: dict[str, str]
    created_ms: int
    reversal_id: str | None = None
    """The id of the opposite transfer's entries."""
    reversed_ms: int | None = None


def transfer_view(transfer: PostedTransfer) -> dict[str, Any]:
    """The public representation."""
    return {
        "id": transfer.id,
        "account_id": transfer.account_id,
        "programme_id": transfer.programme_id,
        "direction": transfer.direction,
        "kind": transfer.kind,
        "amount": {"amount": format_minor(transfer.amount_minor), "currency": transfer.currency},
        "status": "posted" if transfer.reversal_id is None else "reversed",
        "external_ref": transfer.external_ref,
        "description": transfer.description,
        "metadata": transfer.metadata,
        "created_at": to_text(transfer.created_ms),
        "reversal_id": transfer.reversal_id,
        "reversed_at": None if transfer.reversed_ms is None else to_text(transfer.reversed_ms),
    }
