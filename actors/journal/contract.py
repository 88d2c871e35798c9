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
from typing import Any, Protocol, TypeVar

import msgspec

from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.controls import Control
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.programmes.stand_in import Outage

T = TypeVar("T")

decode_controls = msgspec.json.Decoder(tuple[Control, ...]).decode
decode_config = msgspec.json.Decoder(ProgrammeConfig).decode
decode_outage = msgspec.json.Decoder(Outage).decode


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
    """The rows that a batch writes, as tuples in the column order of their tables (``ops/migrations``).

    Rows that a batch changes more than once are kept once, with the oldest ``before`` and the newest
    values. Instants are milliseconds.
    """

    def __init__(self) -> None:
        self.shards: dict[int, int] = {}
        self.journal: list[tuple[Any, ...]] = []
        self.usage: dict[str, tuple[Any, ...]] = {}
        self.usage_before: dict[str, int] = {}
        self.accounts: dict[str, tuple[Any, ...]] = {}
        self.accounts_before: dict[str, int] = {}
        self.holds: list[tuple[Any, ...]] = []
        self.changed_holds: dict[str, tuple[Any, ...]] = {}
        self.transactions: list[tuple[Any, ...]] = []
        self.changed_transactions: dict[str, tuple[Any, ...]] = {}
        self.lapsed: dict[str, tuple[str, int]] = {}
        """Lapsed holds with their authorizations and instants. ``changed_transactions`` of the same batch are
        newer."""
        self.tombstones: list[tuple[Any, ...]] = []
        self.entries: list[tuple[Any, ...]] = []
        self.events: list[tuple[Any, ...]] = []
        self.idempotency: list[tuple[Any, ...]] = []
        self.cards: dict[str, tuple[Any, ...]] = {}
        self.declared: dict[str, tuple[Any, ...]] = {}
        self.programmes: dict[str, tuple[Any, ...]] = {}
        self.outages: dict[tuple[str, int], tuple[Any, ...]] = {}
        """By id and period, in the order in which they began."""
        self.stand_ins: list[tuple[Any, ...]] = []

    def change_hold(self, hold_id: str, amount_minor: int | None, state: str, expires_ms: int | None) -> None:
        """A hold after a command; ``None`` leaves what was there."""
        before = self.changed_holds.get(hold_id)
        if before is not None:
            amount_minor = before[4] if amount_minor is None else amount_minor
            expires_ms = before[6] if expires_ms is None else expires_ms
        self.changed_holds[hold_id] = (hold_id, None, None, None, amount_minor, state, expires_ms)

    def lapse(self, hold_id: str, authorization_id: str, now_ms: int) -> None:
        """A hold ended by time, after everything that the batch has so far."""
        if hold_id in self.changed_holds:
            self.change_hold(hold_id, None, "lapsed", None)
        changed = self.changed_transactions.get(authorization_id)
        if changed is not None:
            ended = "cleared" if changed[14] else "lapsed"
            self.changed_transactions[authorization_id] = (
                *changed[:8],
                ended,
                *changed[9:13],
                0,
                *changed[14:18],
                now_ms,
                *changed[19:],
            )
        self.lapsed[hold_id] = (authorization_id, now_ms)

    def use(self, row: tuple[Any, ...], seq_before: int) -> None:
        """A card's counters after a command; ``row`` begins with the card's id."""
        self.usage[row[0]] = row
        self.usage_before.setdefault(row[0], seq_before)

    def balance(self, row: tuple[Any, ...], version_before: int) -> None:
        """An account after a command; ``row`` begins with the account's id."""
        self.accounts[row[0]] = row
        self.accounts_before.setdefault(row[0], version_before)


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


def decoded(decode: Callable[[], T]) -> T | Unreadable:
    """The value of one stored row, or ``Unreadable`` when decoding it raises anything but MemoryError."""
    try:
        return decode()
    except MemoryError:
        raise
    except Exception as fault:  # noqa: BLE001 - no fault of one row may reach the rows beside it
        return Unreadable(type(fault).__name__)
