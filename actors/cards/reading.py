"""Batched reads of the state that commands need: cards, accounts, programmes and authorizations.

An unreadable row, or one whose read raises an exception, fails only the commands that need it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec
import structlog

from actors.journal.contract import (
    Journal,
    LoadedCards,
    PastOf,
    StoredReply,
    StoredResponse,
    UnknownOutcomeError,
    Unreadable,
)
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.iso8583.identity import late_reversal_key
from engine.programmes.programme import Programme
from engine.rules.velocity import Counted

Kind = Literal["card", "account", "programme", "authorization", "command", "response", "past"]

Pasts: TypeAlias = Mapping[str, Collection[PastOf]]
"""The cards and accounts to read for each need of kind ``past``."""

_log = structlog.get_logger(__name__)


class Need(msgspec.Struct, frozen=True):
    """One thing that must be in memory before a command can be decided."""

    kind: Kind
    id: str
    """An id, ``card id|reference`` of an authorization, the hexadecimal key of an executed command, the
    hexadecimal digest of an idempotency key, or ``past|card id``."""


class Wanted(msgspec.Struct):
    """The needs of the next read, in the order of their arrival."""

    cards: dict[str, None] = msgspec.field(default_factory=dict)
    accounts: dict[str, None] = msgspec.field(default_factory=dict)
    programmes: dict[str, None] = msgspec.field(default_factory=dict)
    authorizations: dict[str, None] = msgspec.field(default_factory=dict)
    commands: dict[str, None] = msgspec.field(default_factory=dict)
    responses: dict[str, None] = msgspec.field(default_factory=dict)
    pasts: dict[str, None] = msgspec.field(default_factory=dict)

    def add(self, need: Need) -> None:
        """Add one need."""
        self._of(need.kind)[need.id] = None

    def __contains__(self, need: Need) -> bool:
        return need.id in self._of(need.kind)

    def add_all(self, other: Wanted) -> None:
        """Add the needs of ``other``."""
        for need in other.needs():
            self.add(need)

    def needs(self) -> Iterator[Need]:
        """All needs."""
        for kind in _KINDS:
            for id_ in self._of(kind):
                yield Need(kind, id_)

    def ids(self) -> list[str]:
        """The ids of all needs."""
        return [
            *self.cards,
            *self.accounts,
            *self.programmes,
            *self.authorizations,
            *self.commands,
            *self.responses,
            *self.pasts,
        ]

    def _of(self, kind: Kind) -> dict[str, None]:
        ids: dict[Kind, dict[str, None]] = {
            "card": self.cards,
            "account": self.accounts,
            "programme": self.programmes,
            "authorization": self.authorizations,
            "command": self.commands,
            "response": self.responses,
            "past": self.pasts,
        }
        return ids[kind]


_KINDS: tuple[Kind, ...] = get_args(Kind)


class ReadResult(msgspec.Struct):
    """The result of a read."""

    loaded: LoadedCards = msgspec.field(default_factory=lambda: LoadedCards({}, {}, {}))
    accounts: dict[str, Account] = msgspec.field(default_factory=dict)
    programmes: dict[str, Programme] = msgspec.field(default_factory=dict)
    authorizations: dict[tuple[str, str], list[Authorization]] = msgspec.field(default_factory=dict)
    answers: dict[bytes, StoredReply] = msgspec.field(default_factory=dict)
    """Stored replies of the needed commands and of the newest commands of the programmes."""
    responses: Mapping[bytes, StoredResponse] = msgspec.field(default_factory=dict)
    """Stored responses of idempotency keys, by the key's digest."""
    pasts: dict[str, list[Counted]] = msgspec.field(default_factory=dict)
    """The past purchases of cards and accounts, for velocities."""
    unreadable: set[str] = msgspec.field(default_factory=set)
    """Ids of needs with unreadable rows, as in ``Wanted.ids``."""

    def add_all(self, other: ReadResult) -> None:
        """Add the result of another read."""
        loaded, more = self.loaded, other.loaded
        self.loaded = LoadedCards(
            loaded.cards | more.cards, loaded.accounts | more.accounts, loaded.answers | more.answers
        )
        self.accounts |= other.accounts
        self.programmes |= other.programmes
        self.authorizations |= other.authorizations
        self.answers |= other.answers
        self.responses = {**self.responses, **other.responses}
        self.pasts |= other.pasts
        self.unreadable |= other.unreadable


class Reader:
    """Reads the needs of one host."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.unreadable = 0
        """Number of unreadable needs since the start, for metrics."""

    async def read(
        self,
        wanted: Wanted,
        known_programmes: Collection[str],
        known_accounts: Collection[str] = (),
        pasts: Pasts | None = None,
    ) -> ReadResult:
        """Read ``wanted``, and those programmes and accounts of its cards that are not known. Raises
        ``UnknownOutcomeError`` while the journal cannot be reached."""
        try:
            read = await self._read(wanted, known_programmes, known_accounts, pasts or {})
        except (UnknownOutcomeError, MemoryError):
            raise
        except Exception as fault:  # noqa: BLE001 - one faulty need must not fail the others
            _log.warning("batched_read_failed", error=type(fault).__name__)
            read = await self._read_one_by_one(wanted, known_programmes, pasts or {})
        self.unreadable += len(read.unreadable)
        return read

    async def _read_one_by_one(
        self, wanted: Wanted, known_programmes: Collection[str], pasts: Pasts
    ) -> ReadResult:
        """Read each need on its own. Those that fail are unreadable."""
        merged = ReadResult()
        for need in wanted.needs():
            alone = Wanted()
            alone.add(need)
            try:
                merged.add_all(await self._read(alone, known_programmes, (), pasts))
            except (UnknownOutcomeError, MemoryError):
                raise
            except Exception as fault:  # noqa: BLE001 - this need is at fault
                _mark_unreadable(merged, need, type(fault).__name__)
        return merged

    async def _read(
        self,
        wanted: Wanted,
        known_programmes: Collection[str],
        known_accounts: Collection[str],
        pasts: Pasts,
    ) -> ReadResult:
        read = ReadResult()
        if wanted.cards:
            read.loaded = await self._journal.load_cards(wanted.cards, known_accounts)
        if wanted.accounts:
            read.accounts = await self._journal.load_accounts(wanted.accounts)
        for card_id in read.loaded.unreadable:
            _mark_unreadable(read, Need("card", card_id), "card")
        await self._read_programmes(wanted, read, known_programmes)
        await self._read_authorizations(wanted, read)
        if wanted.programmes:
            read.answers |= await self._journal.load_answers(wanted.programmes)
        if wanted.commands:
            read.answers |= await self._find(wanted)
        if wanted.responses:
            read.responses = await self._journal.find_responses(map(bytes.fromhex, wanted.responses))
        subjects = {each.subject: each for id_ in wanted.pasts for each in pasts.get(id_, ())}
        if subjects:
            read.pasts = await self._journal.load_past(subjects.values())
        return read

    async def _find(self, wanted: Wanted) -> dict[bytes, StoredReply]:
        """Stored replies of commands and of their late reversals, the reversals first: a reversed approval
        must not be cached without its reversal."""
        keys = list(map(bytes.fromhex, wanted.commands))
        ordered = [late_reversal_key(key) for key in keys] + keys
        found = await self._journal.find(ordered)
        return {key: found[key] for key in ordered if key in found}

    async def _read_programmes(self, wanted: Wanted, read: ReadResult, known: Collection[str]) -> None:
        """Read programmes. A card with an unreadable programme is unreadable."""
        cards = read.loaded.cards.values()
        needed = wanted.programmes | {
            card.programme_id: None for card in cards if card.programme_id not in known
        }
        if not needed:
            return
        for id_, found in (await self._journal.load_programmes(needed)).items():
            if isinstance(found, Unreadable):
                _mark_unreadable(read, Need("programme", id_), found.error)
            else:
                read.programmes[id_] = found
        for card in list(cards):
            if card.programme_id not in known and card.programme_id not in read.programmes:
                del read.loaded.cards[card.id]
                _mark_unreadable(read, Need("card", card.id), "programme")

    async def _read_authorizations(self, wanted: Wanted, read: ReadResult) -> None:
        if not wanted.authorizations:
            return
        named = [split(id_) for id_ in wanted.authorizations]
        for (card_id, reference), found in (await self._journal.load_authorizations(named)).items():
            if isinstance(found, Unreadable):
                _mark_unreadable(read, Need("authorization", f"{card_id}|{reference}"), found.error)
            else:
                read.authorizations[card_id, reference] = found


def split(id_: str) -> tuple[str, str]:
    """Card id and reference of the id of a needed authorization."""
    card_id, _, reference = id_.partition("|")
    return card_id, reference


def _mark_unreadable(read: ReadResult, need: Need, error: str) -> None:
    _log.error("row_unreadable", kind=need.kind, id=need.id, error=error)
    read.unreadable.add(need.id)
