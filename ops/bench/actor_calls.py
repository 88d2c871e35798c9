"""The rival made of plain Ray actors: one call through Ray and one commit for each decision.

It is the usual first design with Ray: an actor owns some cards, keeps them in memory, and each call decides
and commits before it returns. It uses the same engine, the same journal, rows and fence, and serializes the
calls of a card, but it batches neither calls nor commits. Several connections let commits of different cards
overlap.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from actors.cards.activation import CardActor
from actors.cards.rows import write_command
from actors.cluster.unbatched_actor import UnbatchedActor
from actors.journal.contract import Journal, Rows, Unreadable
from actors.journal.postgres import PostgresJournal
from actors.settings import Settings
from engine.authorization.executed import CommandContext
from engine.commands import Authorize, Command
from engine.execution.execute import execute
from engine.ids import shard_of
from engine.limits import SHARD_COUNT
from engine.programmes.programme import ProgrammeConfig
from engine.replies import NotExecuted, Reply

FACTORY: Final = "ops.bench.actor_calls:owner"

_decode_command = msgspec.msgpack.Decoder(Authorize).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode
_encode = msgspec.msgpack.encode


class Owner:
    """Owns ``shards``; see ``actors.cluster.unbatched_actor.ActorService``."""

    def __init__(self, name: str, shards: list[int], journals: list[Journal]) -> None:
        """``journals``: one for each concurrent commit."""
        self._name = name
        self._shards = shards
        self._journals = journals
        self._free: asyncio.LifoQueue[Journal] = asyncio.LifoQueue()
        self._epochs: dict[int, int] = {}
        self._cards: dict[str, CardActor | None] = {}
        self._programmes: dict[str, ProgrammeConfig] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def start(self) -> None:
        """Become the owner."""
        first = self._journals[0]
        await first.register(self._name)
        self._epochs = await first.take(self._shards)
        for journal in self._journals:
            self._free.put_nowait(journal)

    async def answer(self, payload: bytes) -> bytes:
        """``authorize`` as it travels: msgpack."""
        return _encode(await self.authorize(_decode_command(payload)))

    async def authorize(self, command: Authorize) -> Reply:
        """Decide one spend; the reply is durable."""
        turn = self._turns.setdefault(command.card_id, asyncio.Lock())
        async with turn:
            journal = await self._free.get()
            try:
                return await self._decide(command, journal)
            finally:
                self._free.put_nowait(journal)

    async def _decide(self, command: Authorize, journal: Journal) -> Reply:
        actor = await self._card(command.card_id, journal)
        if actor is None:
            return NotExecuted("not_owner")
        rows, now_ms = Rows(), time.time_ns() // 1_000_000
        shard = shard_of(command.card_id)
        epoch = rows.shards[shard] = self._epochs[shard]
        met = CommandContext(actor.card, actor.account, self._programmes[actor.card.programme_id])
        executed = execute(command, met, now_ms)
        write_command(rows, command, actor, executed, None, epoch, now_ms)
        try:
            await journal.commit(rows)
        except BaseException:
            # Memory is ahead of the journal: the next call reads the card again.
            self._cards.pop(command.card_id, None)
            raise
        return executed.reply

    async def _card(self, card_id: str, journal: Journal) -> CardActor | None:
        if card_id not in self._cards:
            found = await journal.load_cards([card_id])
            card = found.cards.get(card_id)
            if card is not None and card.programme_id not in self._programmes:
                programme = (await journal.load_programmes([card.programme_id]))[card.programme_id]
                assert not isinstance(programme, Unreadable), programme.error
                self._programmes[card.programme_id] = programme.config
            account = None if card is None or card.account_id is None else found.accounts[card.account_id]
            self._cards[card_id] = None if card is None else CardActor(card, account)
        return self._cards[card_id]

    async def stop(self) -> None:
        """Disconnect."""
        for journal in self._journals:
            await journal.close()


def owner(settings: Settings, number: int, count: int, connections: int) -> Owner:
    """Number of the owner of a shard, when ``count`` owners have every ``count``-th shard."""
    name = f"bench-owner-{number}"
    journals: list[Journal] = [PostgresJournal(settings.database_dsn, name) for _ in range(connections)]
    return Owner(name, list(range(number, SHARD_COUNT, count)), journals)


class ActorCalls:
    """The caller's side. ``start`` it once; the actors end with the session."""

    def __init__(self, settings: Settings, owners: int, connections: int) -> None:
        """``connections``: database connections of each owner."""
        self._settings = settings
        self._count = owners
        self._connections = connections
        self._owners: list[UnbatchedActor] = []
        self.calls = 0
        """Calls through Ray since the start."""

    async def start(self) -> list[int]:
        """The actors' process ids, once all serve."""
        for number in range(self._count):
            about = (number, self._count, self._connections)
            self._owners.append(await asyncio.to_thread(UnbatchedActor, FACTORY, self._settings, *about))
        return [await each.start() for each in self._owners]

    async def submit(self, command: Command) -> Reply:
        """Decide one spend; its reply is durable."""
        assert isinstance(command, Authorize), "the rival knows spends only"
        self.calls += 1
        owner = self._owners[shard_of(command.card_id) % self._count]
        reply: Reply = _decode_reply(await owner.call(_encode(command)))
        return reply
