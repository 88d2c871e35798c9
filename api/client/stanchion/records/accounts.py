"""Accounts, transfers and ledger entries."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict
from stanchion.records.common import Money

AccountKind = Literal["card", "funding_source", "settlement"]
Direction = Literal["credit", "debit"]
"""Seen from the account: a credit raises its balance."""
TransferKind = Literal["load", "unload", "adjustment", "fee"]


class Account(TypedDict):
    """An account: ``available`` = ``posted`` - ``held``. ``posted`` and ``available`` may be negative."""

    id: str
    programme_id: str
    kind: AccountKind
    currency: str
    posted: str
    held: str
    available: str
    cards: int
    as_of: str
    version: int


class Transfer(TypedDict):
    """A transfer between an account and its programme's funding source."""

    id: str
    account_id: str
    programme_id: str
    direction: Direction
    kind: TransferKind
    amount: Money
    status: Literal["posted", "reversed"]
    external_ref: str | None
    description: str | None
    metadata: dict[str, str]
    created_at: str
    reversal_id: str | None
    reversed_at: str | None


class LedgerEntry(TypedDict):
    """One side of a transfer."""

    id: str
    transfer_id: str
    account_id: str
    direction: Direction
    amount: Money
    authorization_id: str | None
    created_at: str
