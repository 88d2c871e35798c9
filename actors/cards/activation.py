"""The active cards of a host, and the activation of cold ones.

Cold cards are read in batches with one read in flight (single flight): a thousand commands for a thousand
cold cards cost a few round trips, a thousand commands for one cold card cost one. An account in memory is not
read again with its next card: it can have many open holds. Above a limit, the least
recently used cards are passivated, except cards with changes that are not durable. The result of a read that
began before the host dropped state is discarded, and the read is repeated: it may lack a later commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import islice
from sys import intern
from typing import Final

from actors.cards.card_actor import ActiveAccount, CardActor
from actors.cards.pasts import LoadingPast, Pasts, wanted_pasts
from actors.cards.reading import Need, Reader, ReadResult, Wanted, split
from actors.clock import SystemClock
from actors.essential import start_essential
from actors.journal.contract import Journal, StoredReply, StoredResponse, UnknownOutcomeError, Unreadable
from engine.cards.account import Account
from engine.cards.card import Card
from engine.commands import (
    AUTHORIZATION_COMMANDS,
    DRY_RUNS,
    PROGRAMME_CHANGES,
    AuthorizationCommand,
    Command,
    CreateCard,
    CreateProgramme,
)
from engine.ids import shard_of
from engine.limits import ACTIVE_CARDS_MAX
from engine.programmes.programme import Programme

RETRY_SECONDS: Final = 0.05
DURABLE_SECONDS: Final = 0.005
"""Pause before the past of a card is read again whose last commands were not durable."""
_SHARED_BY_ACCOUNTS: Final = ("tenant_id", "programme_id", "currency")
_SHARED_BY_CARDS: Final = (
    *_SHARED_BY_ACCOUNTS,
    "card_product_id",
    "network",
    "iin",
    "cvk_generation",
    "state",
    "day",
)


class Activation:
    """The active cards, accounts and programmes of one host.

    ``on_loaded`` is called after each read with the ids that were looked up and with the ids of unreadable
    rows. ``snapshots`` has the newest durable versions of all programmes of active cards; ``programmes`` has
    the programmes that this host owns, in their tentative state.
    """

    def __init__(
        self,
        journal: Journal,
        on_loaded: Callable[[Wanted, Collection[str]], None],
        remember: Callable[[dict[bytes, StoredReply]], None],
        active_max: int = ACTIVE_CARDS_MAX,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._journal = journal
        self.reader = Reader(journal)
        self._on_loaded = on_loaded
        self._remember = remember
        self._active_max = active_max
        self._wanted = Wanted()
        self._reading = Wanted()
        self._generation = 0
        self._position: str | None = None
        """Position in the changes of programmes (``load_changed_programmes``)."""
        self._paused = False
        self._task: asyncio.Task[None] | None = None
        self.cards: dict[str, CardActor] = {}
        self.accounts: dict[str, ActiveAccount] = {}
        self.programmes: dict[str, Programme] = {}
        self.snapshots: dict[str, Programme] = {}
        self.responses: dict[bytes, StoredResponse] = {}
        """Stored responses that a read has found for commands that wait for it."""
        self.pasts = Pasts(self.cards, self.accounts, self.snapshots, now_ms or SystemClock().now_ms)

    def card(self, card_id: str) -> CardActor | None:
        """The active card, which becomes the most recently used one."""
        actor = self.cards.pop(card_id, None)
        if actor is not None:
            self.cards[card_id] = actor
        return actor

    def need(self, command: Command) -> Need | None:
        """The first thing that must be read before ``command`` can be decided, or ``None``."""
        if isinstance(command, CreateProgramme):
            return None
        if isinstance(command, PROGRAMME_CHANGES):
            return (
                None if command.programme_id in self.programmes else Need("programme", command.programme_id)
            )
        if not isinstance(command, CreateCard):
            actor = self.cards.get(command.card_id)
            if actor is None:
                return Need("card", command.card_id)
            if isinstance(command, DRY_RUNS):
                return self.pasts.need(actor)
            if not isinstance(command, AUTHORIZATION_COMMANDS):
                return None
            return _unknown_original(command, actor) or self.pasts.need(actor)
        if command.programme_id not in self.snapshots:
            return Need("programme", command.programme_id)
        if command.account_id is None or command.opens_account or command.account_id in self.accounts:
            return None
        return Need("account", command.account_id)

    def want(self, need: Need) -> None:
        """Add ``need`` to the next read, unless the present read includes it."""
        if need not in self._reading:
            self._wanted.add(need)
            self._start_reading()

    async def fetch(self, need: Need) -> bool:
        """Read one thing at once, without the batches; for recovery, while reads are paused. False if the row
        is unreadable."""
        wanted = Wanted()
        wanted.add(need)
        loading = self.pasts.begin(wanted)
        if not wanted.ids():
            # Commands that are not durable yet are missing in the stored past.
            return False
        read = await self.reader.read(wanted, self.snapshots, (), wanted_pasts(loading))
        self._install(wanted, read, loading)
        return need.id not in read.unreadable

    def admit(self, card: Card, account: Account | None) -> CardActor:
        """Activate a card. An account that is in memory already replaces ``account``."""
        _share(card, _SHARED_BY_CARDS)
        if account is not None:
            _share(account, _SHARED_BY_ACCOUNTS)
            active = self.accounts.setdefault(account.id, ActiveAccount(account))
            active.users += 1
            account = active.account
            card.account_id = account.id
        actor = CardActor(card, account)
        self.cards[card.id] = actor
        return actor

    def forget_old(self, actor: CardActor) -> None:
        """Drop old references of a durable card, except during a read of authorizations: its result may be
        older than the dropped references."""
        if not self._reading.authorizations:
            actor.forget_old()

    def learn(self, programme: Programme) -> None:
        """Keep a programme's snapshot unless a newer one is in memory."""
        known = self.snapshots.get(programme.config.id)
        if known is None or known.seq < programme.seq:
            self.snapshots[programme.config.id] = programme

    async def refresh_programmes(self) -> None:
        """Read the snapshots that have changed since the last call: the owner of a programme can crash
        between the commit of a version and its announcement."""
        # The new position is older than the full read below: no change is missed.
        position, changed = await self._journal.load_changed_programmes(self._position, self._is_newer)
        if self._position is None and self.snapshots:
            changed = await self._journal.load_programmes(list(self.snapshots))
        self._position = position
        for programme in changed.values():
            if not isinstance(programme, Unreadable):
                self.learn(programme)

    def _is_newer(self, programme_id: str, seq: int) -> bool:
        known = self.snapshots.get(programme_id)
        return known is not None and known.seq < seq

    def drop_cards(self, card_ids: Iterable[str]) -> None:
        """Drop cards, their accounts and all other cards of those accounts: their tentative state may be
        lost."""
        dropped = set(card_ids)
        accounts = {actor.card.account_id for id_ in dropped if (actor := self.cards.get(id_))} - {None}
        sharing = {id_ for id_, actor in self.cards.items() if actor.card.account_id in accounts}
        for id_ in dropped | sharing:
            self.cards.pop(id_, None)
        for account_id in accounts:
            self.accounts.pop(account_id or "", None)

    def drop_shards(self, shards: Collection[int]) -> None:
        """Drop all state of ``shards`` and the result of the present read: the host gains or loses the
        shards."""
        self._generation += 1
        for state in (self.cards, self.accounts, self.programmes):
            for id_ in [id_ for id_ in state if shard_of(id_) in shards]:
                del state[id_]

    def passivate_surplus(self) -> None:
        """Drop durable cards above the limit, the least recently used first; ``cards`` is in the order of
        use.

        Call it only if no command waits for a card that was read for it.
        """
        surplus = len(self.cards) - self._active_max
        if surplus <= 0:
            return
        idle = islice((actor for actor in self.cards.values() if not actor.undurable), surplus)
        for actor in list(idle):
            del self.cards[actor.card.id]
            if actor.account is not None:
                self._release_account(actor.account.id)

    def pause(self) -> None:
        """Start no more reads, and discard the result of the present one."""
        self._paused = True
        self._generation += 1

    def resume(self) -> None:
        """Resume reading, including the needs added meanwhile."""
        self._paused = False
        self._start_reading()

    async def stop(self) -> None:
        """Stop reading."""
        self.pause()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _start_reading(self) -> None:
        if self._wanted.ids() and not self._paused and (self._task is None or self._task.done()):
            self._task = start_essential(self._read_wanted(), "activation")

    async def _read_wanted(self) -> None:
        while self._wanted.ids() and not self._paused:
            wanted, self._wanted = self._wanted, Wanted()
            loading = self.pasts.begin(wanted, postponed=self._wanted)
            if not wanted.ids():
                await asyncio.sleep(DURABLE_SECONDS)
                continue
            generation = self._generation
            self._reading = wanted
            try:
                # The open holds of a shared account are read once, not with each of its cards.
                read = await self.reader.read(wanted, self.snapshots, self.accounts, wanted_pasts(loading))
            except UnknownOutcomeError:
                await asyncio.sleep(RETRY_SECONDS)
                read = None
            finally:
                self._reading = Wanted()
            if read is None or generation != self._generation or self._lacks_account(read):
                self._wanted.add_all(wanted)
                continue
            self._install(wanted, read, loading)
            self._on_loaded(wanted, read.unreadable)

    def _lacks_account(self, read: ReadResult) -> bool:
        """Whether the account of a card was in memory, so it was not read, and has been dropped since."""
        accounts = {card.account_id for card in read.loaded.cards.values() if card.account_id}
        return any(id_ not in self.accounts and id_ not in read.loaded.accounts for id_ in accounts)

    def _install(self, wanted: Wanted, read: ReadResult, loading: list[LoadingPast]) -> None:
        """Keep the result of a read, except where memory is newer."""
        for id_, programme in read.programmes.items():
            self.learn(programme)
            if id_ in wanted.programmes:
                self.programmes.setdefault(id_, programme)
        for account in read.accounts.values():
            self.accounts.setdefault(account.id, ActiveAccount(account))
        self._remember(read.loaded.answers | read.answers)
        self.responses |= read.responses
        for card in read.loaded.cards.values():
            if card.id not in self.cards:
                active = self.accounts.get(card.account_id or "")
                self.admit(
                    card, active.account if active else read.loaded.accounts.get(card.account_id or "")
                )
        for id_ in wanted.authorizations:
            card_id, reference = split(id_)
            actor = self.cards.get(card_id)
            if actor is not None and id_ not in read.unreadable:
                actor.known.load(reference, read.authorizations.get((card_id, reference), ()))
        for each in loading:
            if each.wanted.subject in read.pasts:
                each.history.load(each.velocities, each.zone, read.pasts[each.wanted.subject])

    def _release_account(self, account_id: str) -> None:
        active = self.accounts.get(account_id)
        if active is not None:
            active.users -= 1
            if active.users <= 0:
                del self.accounts[account_id]


def _share(state: Card | Account, names: tuple[str, ...]) -> None:
    """Intern texts that thousands of cards share: each read or decoding makes new copies."""
    for name in names:
        setattr(state, name, intern(getattr(state, name)))


def _unknown_original(command: AuthorizationCommand, actor: CardActor) -> Need | None:
    """The first reference of ``command`` that must be looked up, or ``None`` if an earlier one has led to the
    original."""
    if not command.references:
        return None
    reference = actor.known.missing_reference(command, actor.account)
    return None if reference is None else Need("authorization", f"{command.card_id}|{reference}")
