"""Reads from the journal what commands need: one batched read for many cards, programmes and authorizations.

A row that cannot be decoded, or whose read makes our own code fail, costs the commands that need it their
execution and no other command anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec
import structlog

from actors.journal.contract import Activated, Journal, Stored, UnknownOutcomeError, Unreadable
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.iso8583.identity import late_reversal_key
from engine.programmes.programme import Programme

Kind = Literal["card", "account", "programme", "authorization", "command"]

_log = structlog.get_logger(__name__)


class Need(msgspec.Struct, frozen=True):
    """One thing that a command cannot be decided without."""

    kind: Kind
    id: str
    """An id, ``card id|reference`` of an authorization, or the hexadecimal key of an executed command."""


class Wanted(msgspec.Struct):
    """What a read has to bring, in the order in which it was asked for."""

    cards: dict[str, None] = msgspec.field(default_factory=dict)
    accounts: dict[str, None] = msgspec.field(default_factory=dict)
    programmes: dict[str, None] = msgspec.field(default_factory=dict)
    authorizations: dict[str, None] = msgspec.field(default_factory=dict)
    commands: dict[str, None] = msgspec.field(default_factory=dict)

    def add(self, need: Need) -> None:
        """Want one thing more."""
        self._of(need.kind)[need.id] = None

    def __contains__(self, need: Need) -> bool:
        return need.id in self._of(need.kind)

    def add_all(self, other: Wanted) -> None:
        """Want all that ``other`` wants."""
        for need in other.needs():
            self.add(need)

    def needs(self) -> Iterator[Need]:
        """Everything that is wanted."""
        for kind in _KINDS:
            for id_ in self._of(kind):
                yield Need(kind, id_)

    def ids(self) -> list[str]:
        """Everything that is wanted; empty when nothing is."""
        return [*self.cards, *self.accounts, *self.programmes, *self.authorizations, *self.commands]

    def _of(self, kind: Kind) -> dict[str, None]:
        ids: dict[Kind, dict[str, None]] = {
            "card": self.cards,
            "account": self.accounts,
            "programme": self.programmes,
            "authorization": self.authorizations,
            "command": self.commands,
        }
        return ids[kind]


_KINDS: tuple[Kind, ...] = ("card", "account", "programme", "authorization", "command")


class Read(msgspec.Struct):
    """What a read has brought."""

    loaded: Activated = msgspec.field(default_factory=lambda: Activated({}, {}, {}))
    accounts: dict[str, Account] = msgspec.field(default_factory=dict)
    programmes: dict[str, Programme] = msgspec.field(default_factory=dict)
    authorizations: dict[tuple[str, str], list[Authorization]] = msgspec.field(default_factory=dict)
    answers: dict[bytes, Stored] = msgspec.field(default_factory=dict)
    """Executed commands that were wanted, and the newest ones of the programmes."""
    unreadable: set[str] = msgspec.field(default_factory=set)
    """Ids of the needs that cannot be met, as in ``Wanted.ids``."""

    def add_all(self, other: Read) -> None:
        """Merge another read into this one."""
        loaded, more = self.loaded, other.loaded
        self.loaded = Activated(
            loaded.cards | more.cards, loaded.accounts | more.accounts, loaded.answers | more.answers
        )
        self.accounts |= other.accounts
        self.programmes |= other.programmes
        self.authorizations |= other.authorizations
        self.answers |= other.answers
        self.unreadable |= other.unreadable


class Reader:
    """Reads for one host."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.unreadable = 0
        """Needs that could not be met since the start, for metrics."""

    async def read(self, wanted: Wanted, known_programmes: Collection[str]) -> Read:
        """What ``wanted`` names, and the programmes of its cards that are not among ``known_programmes``.
        Raises ``UnknownOutcomeError`` while the journal cannot be reached."""
        try:
            read = await self._read(wanted, known_programmes)
        except (UnknownOutcomeError, MemoryError):
            raise
        except Exception as fault:  # noqa: BLE001 - the fault of one need must not cost the others their read
            _log.warning("batched_read_failed", error=type(fault).__name__)
            read = await self._read_apart(wanted, known_programmes)
        self.unreadable += len(read.unreadable)
        return read

    async def _read_apart(self, wanted: Wanted, known_programmes: Collection[str]) -> Read:
        """Read every need by itself; those that fail are unreadable."""
        merged = Read()
        for need in wanted.needs():
            alone = Wanted()
            alone.add(need)
            try:
                merged.add_all(await self._read(alone, known_programmes))
            except (UnknownOutcomeError, MemoryError):
                raise
            except Exception as fault:  # noqa: BLE001 - this is the one at fault
                _refuse(merged, need, type(fault).__name__)
        return merged

    async def _read(self, wanted: Wanted, known_programmes: Collection[str]) -> Read:
        read = Read()
        if wanted.cards:
            read.loaded = await self._journal.load_cards(wanted.cards)
        if wanted.accounts:
            read.accounts = await self._journal.load_accounts(wanted.accounts)
        for card_id in read.loaded.unreadable:
            _refuse(read, Need("card", card_id), "card")
        await self._read_programmes(wanted, read, known_programmes)
        await self._read_authorizations(wanted, read)
        if wanted.programmes:
            read.answers |= await self._journal.load_answers(wanted.programmes)
        if wanted.commands:
            read.answers |= await self._find(wanted)
        return read

    async def _find(self, wanted: Wanted) -> dict[bytes, Stored]:
        """Executed commands with the late reversals of them, the newest first: an approval that was reversed
        must not be remembered as one that was not."""
        keys = list(map(bytes.fromhex, wanted.commands))
        ordered = [late_reversal_key(key) for key in keys] + keys
        found = await self._journal.find(ordered)
        return {key: found[key] for key in ordered if key in found}

    async def _read_programmes(self, wanted: Wanted, read: Read, known: Collection[str]) -> None:
        """A card whose programme cannot be decoded is as unreadable as that programme."""
        cards = read.loaded.cards.values()
        needed = wanted.programmes | {
            card.programme_id: None for card in cards if card.programme_id not in known
        }
        if not needed:
            return
        for id_, found in (await self._journal.load_programmes(needed)).items():
            if isinstance(found, Unreadable):
                _refuse(read, Need("programme", id_), found.error)
            else:
                read.programmes[id_] = found
        for card in list(cards):
            if card.programme_id not in known and card.programme_id not in read.programmes:
                del read.loaded.cards[card.id]
                _refuse(read, Need("card", card.id), "programme")

    async def _read_authorizations(self, wanted: Wanted, read: Read) -> None:
        if not wanted.authorizations:
            return
        named = [split(id_) for id_ in wanted.authorizations]
        for (card_id, reference), found in (await self._journal.load_authorizations(named)).items():
            if isinstance(found, Unreadable):
                _refuse(read, Need("authorization", f"{card_id}|{reference}"), found.error)
            else:
                read.authorizations[card_id, reference] = found


def split(id_: str) -> tuple[str, str]:
    """Card id and reference of a wanted authorization."""
    card_id, _, reference = id_.partition("|")
    return card_id, reference


def _refuse(read: Read, need: Need, error: str) -> None:
    _log.error("row_unreadable", kind=need.kind, id=need.id, error=error)
    read.unreadable.add(need.id)
