"""What a journal is: the one way by which owners' state becomes durable.

Two journals keep this contract and one conformance suite (``tests/actors/journal``) holds them equal:
PostgreSQL, and a twin in memory for simulations. Errors:

    JournalError
    ├── StaleEpochError      another host owns one of the shards: this host must end at once
    ├── RejectedError        the journal refused the batch and nothing of it happened
    │   ├── DuplicateError   a command key or an idempotency key is already there
    │   └── BehindError      memory was behind the rows it wanted to change
    └── UnknownOutcomeError  nobody can say whether the batch happened: take new epochs, then look
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from actors.journal.rows import (
    AccountRow,
    CardRow,
    DeclaredRow,
    EntryRow,
    EventRow,
    HoldRow,
    IdempotencyRow,
    JournalRow,
    OutageRow,
    ProgrammeRow,
    StandInRow,
    TombstoneRow,
    TransactionRow,
    UsageRow,
)
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.programmes.programme import Programme


class JournalError(Exception):
    """The batch was not made durable as far as is known."""


class StaleEpochError(JournalError):
    """Another host has taken a shard that the batch writes."""


class RejectedError(JournalError):
    """The journal refused the batch; nothing of it happened."""


class DuplicateError(RejectedError):
    """A command key or an idempotency key of the batch is already in the journal."""


class BehindError(RejectedError):
    """A row was not at the version from which memory had moved on."""


class UnknownOutcomeError(JournalError):
    """The connection failed in mid-commit or the journal cannot be reached."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """What the journal keeps of an executed command: enough to answer it again."""

    fingerprint: bytes | None
    reply: bytes
    """JSON of the ``engine.replies.Reply``."""


class StoredResponse(msgspec.Struct, frozen=True, gc=False):
    """An idempotency row; ``sealed`` is the response body in the vault's keeping."""

    fingerprint: bytes
    status: int
    sealed: bytes


class Unreadable(msgspec.Struct, frozen=True):
    """A stored row that this release cannot decode, in place of its value: a fault of one row must not cost
    the other rows of its read."""

    error: str
    """Type of the exception."""


class Activated(msgspec.Struct, frozen=True):
    """Owners' state read back: what a batch of cold cards needs."""

    cards: dict[str, Card]
    accounts: dict[str, Account]
    answers: dict[bytes, Stored]
    """The newest commands of those cards by command key."""
    unreadable: frozenset[str] = frozenset()
    """Cards whose stored row cannot be decoded."""


class Rows:
    """The rows that one commit writes (``actors.journal.rows``).

    A row that the commit changes several times appears once, with its newest values. ``usage_before`` and
    ``accounts_before`` are the versions that the rows must have in the database.
    """

    def __init__(self) -> None:
        self.shards: dict[int, int] = {}
        """Epochs of all shards that the commit writes or whose state it answers from."""
        self.journal: list[JournalRow] = []
        self.usage: dict[str, UsageRow] = {}
        self.usage_before: dict[str, int] = {}
        self.accounts: dict[str, AccountRow] = {}
        self.accounts_before: dict[str, int] = {}
        self.holds: list[HoldRow] = []
        self.changed_holds: dict[str, HoldRow] = {}
        self.transactions: list[TransactionRow] = []
        self.changed_transactions: dict[str, TransactionRow] = {}
        self.lapsed: dict[str, tuple[str, int]] = {}
        """Authorization and instant by the id of the lapsed hold. Written before ``changed_holds`` and
        ``changed_transactions``."""
        self.tombstones: list[TombstoneRow] = []
        self.entries: list[EntryRow] = []
        self.events: list[EventRow] = []
        self.idempotency: list[IdempotencyRow] = []
        self.cards: dict[str, CardRow] = {}
        self.declared: dict[str, DeclaredRow] = {}
        self.programmes: dict[str, ProgrammeRow] = {}
        self.outages: dict[tuple[str, int], OutageRow] = {}
        """By id and period, in the order of their beginnings."""
        self.stand_ins: list[StandInRow] = []

    def change_hold(self, hold_id: str, amount_minor: int | None, state: str, expires_ms: int | None) -> None:
        """Change a hold. ``None`` keeps the earlier value."""
        before = self.changed_holds.get(hold_id)
        if before is not None:
            amount_minor = before.amount_minor if amount_minor is None else amount_minor
            expires_ms = before.expires_at if expires_ms is None else expires_ms
        self.changed_holds[hold_id] = HoldRow(hold_id, None, None, None, amount_minor, state, expires_ms)

    def lapse(self, hold_id: str, authorization_id: str, now_ms: int) -> None:
        """Expire a hold and its authorization, after all earlier changes in this commit."""
        if hold_id in self.changed_holds:
            self.change_hold(hold_id, None, "lapsed", None)
        changed = self.changed_transactions.get(authorization_id)
        if changed is not None:
            status = "cleared" if changed.cleared_minor else "lapsed"
            self.changed_transactions[authorization_id] = changed._replace(
                status=status, held_minor=0, updated_at=now_ms
            )
        self.lapsed[hold_id] = (authorization_id, now_ms)

    def set_usage(self, row: UsageRow, seq_before: int) -> None:
        """Set a card's counters after a command."""
        self.usage[row.card_id] = row
        self.usage_before.setdefault(row.card_id, seq_before)

    def set_balance(self, row: AccountRow, version_before: int) -> None:
        """Set an account's balance after a command."""
        self.accounts[row.id] = row
        self.accounts_before.setdefault(row.id, version_before)


class Journal(Protocol):
    """All methods raise ``UnknownOutcomeError`` while the journal cannot be reached."""

    async def register(self, host: str) -> None:
        """Make ``host``'s incarnation known, once, before it takes shards."""

    async def load_epochs(self, shards: Collection[int]) -> dict[int, int]:
        """The newest epoch of each shard, whoever owns it."""

    async def take(self, shards: Collection[int], known: Mapping[int, int] | None = None) -> dict[int, int]:
        """Become the owner of ``shards``; returns their new epochs. Only state loaded after this call counts.

        ``known``: the epochs on which the decision to take was based, read now by default. If one has risen
        since, ``BehindError``: a take that runs after its caller gave up changes nothing."""

    async def renew(self, shards: Collection[int], known: Mapping[int, int] | None = None) -> dict[int, int]:
        """New epochs for shards this host still owns, so that no commit of an older epoch can follow;
        ``StaleEpochError`` otherwise. ``known``: the epochs that the host has, read now by default; a renewal
        that runs after its caller gave up changes nothing."""

    async def release(self, shards: Collection[int], known: Mapping[int, int] | None = None) -> None:
        """Give up those of ``shards`` that this host owns under the epochs ``known``, read now by default;
        nothing of theirs may be in flight."""

    async def commit(self, rows: Rows) -> None:
        """Make ``rows`` durable in one transaction, or raise."""

    async def load_cards(self, card_ids: Iterable[str]) -> Activated:
        """Cards with their accounts and open holds; unknown ids are absent."""

    async def load_authorizations(
        self, references: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Authorization] | Unreadable]:
        """Authorizations by card id and reference (``engine.commands.reference_of_*``), oldest first; unknown
        references are absent. Several can share a network id: the newest ``LIFE_MEMBERS_MAX`` are read. A
        reference is unreadable as soon as one of its rows is."""

    async def find_due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        """Cards of ``shards`` that have holds past their expiry, the longest overdue first."""

    async def load_accounts(self, account_ids: Iterable[str]) -> dict[str, Account]:
        """Accounts with their open holds; unknown ids are absent."""

    async def load_programmes(self, programme_ids: Iterable[str]) -> dict[str, Programme | Unreadable]:
        """Programmes; unknown ids are absent."""

    async def load_changed_programmes(
        self, mark: str | None, wanted: Callable[[str, int], bool]
    ) -> tuple[str, dict[str, Programme | Unreadable]]:
        """Programmes that were written since ``mark`` was given out, and the next mark; without a mark, none.
        Only those are decoded of whose id and ``seq`` ``wanted`` is true. A programme may come twice."""

    async def load_answers(self, actor_ids: Iterable[str]) -> dict[bytes, Stored]:
        """The newest commands of cards or programmes by command key."""

    async def find(self, command_keys: Iterable[bytes]) -> Mapping[bytes, Stored]:
        """Executed commands by key; absent keys were not executed."""

    async def find_responses(self, key_digests: Iterable[bytes]) -> Mapping[bytes, StoredResponse]:
        """Stored responses of idempotency keys that have not expired."""

    async def reset(self) -> None:
        """Cut all connections without waiting for them; the next call connects anew."""

    async def close(self) -> None:
        """Give up all connections; calling it twice is harmless."""
