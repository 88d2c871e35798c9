"""Loads and transfers."""

from __future__ import annotations

from engine.commands.base import CommandBase
from engine.transfer import Direction, PostedTransfer, TransferKind


class Load(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="load"):
    """Credit a card's funding account from the programme's funding source."""

    card_id: str
    tenant_id: str
    live: bool
    amount_minor: int
    currency: str


class Transfer(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="transfer"):
    """Move money between an account and its programme's funding source. ``card_id`` is the card with which
    the account was opened: the owner of both decides. The transfer's id derives from ``id``
    (``Derived.TRANSFER``)."""

    card_id: str
    tenant_id: str
    live: bool
    account_id: str
    direction: Direction
    kind: TransferKind
    amount_minor: int
    currency: str
    allow_negative: bool = False
    """Whether a debit may exceed the available balance."""
    external_ref: str | None = None
    """The issuer's own reference."""
    description: str | None = None
    metadata: dict[str, str] = {}
    """The issuer's own pairs."""


class ReverseTransfer(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="reverse_transfer"):
    """Post the opposite of a transfer, in full. ``command_key`` derives from the transfer's id
    (``Derived.TRANSFER_REVERSAL``), so a transfer is reversed at most once."""

    card_id: str
    tenant_id: str
    live: bool
    transfer: PostedTransfer
    """The transfer as it was posted."""
    allow_negative: bool = False
    """As in ``Transfer``."""
