"""The contract of a journal. Owners make their state durable through a journal only.

PostgreSQL and an in-memory twin for simulations keep this contract; one conformance suite
(``tests/actors/journal``) holds them equal. Errors:

    JournalError
    ├── StaleEpochError      another host owns one of the shards: this host must end at once
    ├── RejectedError        the journal refused the batch and wrote none of it
    │   ├── DuplicateError   a command key or an idempotency key is in the journal already
    │   └── BehindError      a row is newer than the state in memory
    └── UnknownOutcomeError  the batch may or may not be durable: take new epochs, then look it up
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from actors.journal.rows import (
    AccountRow,
    ActRow,
    CardRow,
    DeclaredRow,
    EntryRow,
    EventRow,
    HoldRow,
    IdempotencyRow,
    JournalRow,
    OutageRow,
    ProgrammeRow,
    ReplacementRow,
    RuleMatchRow,
    RuleRow,
    StandInRow,
    TombstoneRow,
    TransactionRow,
    UsageRow,
)
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.decision.compact_layout import Configuration
from engine.programmes.programme import Programme
from engine.rules.velocity import Counted

Epochs: TypeAlias = Mapping[int, int]
"""Epochs by shard."""


class JournalError(Exception):
    """The journal did not confirm the batch."""


class StaleEpochError(JournalError):
    """Another host has taken a shard of the batch."""


class RejectedError(JournalError):
    """The journal refused the batch and wrote none of it."""


class DuplicateError(RejectedError):
    """A command key or an idempotency key of the batch is in the journal already."""


class BehindError(RejectedError):
    """A row does not have the version on which the change is based."""


class UnknownOutcomeError(JournalError):
    """The connection failed during the commit, or the journal cannot be reached."""


class StoredReply(msgspec.Struct, frozen=True, gc=False):
    """The stored reply of an executed command."""

    fingerprint: bytes | None
    reply: bytes
    """JSON of an ``engine.replies.Reply``."""


class StoredResponse(msgspec.Struct, frozen=True, gc=False):
    """The stored response of an idempotency key; ``sealed`` is its body, sealed by the vault."""

    fingerprint: bytes
    status: int
    sealed: bytes


class Unreadable(msgspec.Struct, frozen=True):
    """Stands for a stored row that this release cannot decode. The other rows of the read are not
    affected."""

    error: str
    """Type of the exception."""


class PastOf(msgspec.Struct, frozen=True):
    """A card or an account whose purchases since ``since_ms`` are needed."""

    subject: str
    kind: Literal["card", "account"]
    since_ms: int


class LoadedCards(msgspec.Struct, frozen=True):
    """The stored state of a batch of cold cards."""

    cards: dict[str, Card]
    accounts: dict[str, Account]
    answers: dict[bytes, StoredReply]
    """Stored replies of the newest commands of those cards, by command key."""
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
        self.configurations: dict[str, Configuration] = {}
        """Configurations that rows of ``journal`` name, by digest."""
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
        self.replacements: list[ReplacementRow] = []
        self.rules: list[RuleRow] = []
        """In the order of the changes; a rule can appear several times."""
        self.rule_matches: list[RuleMatchRow] = []
        self.declared: dict[str, DeclaredRow] = {}
        self.programmes: dict[str, ProgrammeRow] = {}
        self.outages: dict[tuple[str, int], OutageRow] = {}
        """By id and period, in the order of their beginnings."""
        self.stand_ins: list[StandInRow] = []
        self.acts: list[ActRow] = []

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
        """Record the incarnation ``host`` before it takes shards. Repeating it has no effect."""

    async def load_epochs(self, shards: Collection[int]) -> dict[int, int]:
        """The newest epoch of each shard, with any owner."""

    async def take(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        """Become the owner of ``shards``, and return their new epochs. State loaded earlier is obsolete.

        ``expected``: the epochs on which the decision to take is based; read by this call by default. Raises
        ``BehindError`` if one of them has risen since: a late take changes nothing."""

    async def renew(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        """Raise the epochs of shards that this host owns, and return them: no commit with an older epoch can
        follow. Raises ``StaleEpochError`` if another host owns one of the shards.

        ``expected``: the host's present epochs; read by this call by default. A late renewal changes
        nothing."""

    async def release(self, shards: Collection[int], expected: Epochs | None = None) -> None:
        """Release those of ``shards`` that this host owns with the epochs ``expected``; read by this call by
        default. No commit of theirs may be in flight."""

    async def commit(self, rows: Rows) -> None:
        """Make ``rows`` durable in one transaction. Raises ``JournalError``."""

    async def load_cards(self, card_ids: Iterable[str], known_accounts: Collection[str] = ()) -> LoadedCards:
        """Cards with their accounts and open holds, without the ``known_accounts``. Unknown ids are
        absent."""

    async def load_authorizations(
        self, references: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Authorization] | Unreadable]:
        """Authorizations by card id and reference (``engine.commands.reference_of_*``), oldest first. Unknown
        references are absent. Several authorizations can share a network id: the newest ``NETWORK_GROUP_MAX``
        are read. One unreadable row makes its reference unreadable."""

    async def load_past(self, wanted: Iterable[PastOf]) -> dict[str, list[Counted]]:
        """The purchases and increments that may count in velocities, by subject. Those of a card include
        those of the cards that it replaces, those of an account are of all its cards. Older ones can be
        among them."""

    async def find_due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        """Cards of ``shards`` with expired holds, the longest overdue first."""

    async def load_accounts(self, account_ids: Iterable[str]) -> dict[str, Account]:
        """Accounts with their open holds; unknown ids are absent."""

    async def load_programmes(self, programme_ids: Iterable[str]) -> dict[str, Programme | Unreadable]:
        """Programmes; unknown ids are absent."""

    async def load_changed_programmes(
        self, position: str | None, wanted: Callable[[str, int], bool]
    ) -> tuple[str, dict[str, Programme | Unreadable]]:
        """The next position, and the programmes that were written since ``position`` was returned; none if
        ``position`` is ``None``. Programmes are decoded only if ``wanted`` is true of id and ``seq``. Two
        calls can return the same programme."""

    async def load_answers(self, actor_ids: Iterable[str]) -> dict[bytes, StoredReply]:
        """Stored replies of the newest commands of cards or programmes, by command key."""

    async def find(self, command_keys: Iterable[bytes]) -> Mapping[bytes, StoredReply]:
        """Stored replies by command key. Keys that were not executed are absent."""

    async def find_responses(self, key_digests: Iterable[bytes]) -> Mapping[bytes, StoredResponse]:
        """Stored responses of idempotency keys that have not expired."""

    async def reset(self) -> None:
        """Terminate all connections at once. The next call makes a new one."""

    async def close(self) -> None:
        """Terminate all connections. Safe to call twice."""
