"""A wire without sockets: bytes to the respondent, the real host behind it, bytes back; on any journal.

``Line.ask`` is what a network does; ``Line.renew`` lets another host, which remembers nothing, take over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.clock import Clock
from actors.journal.contract import Journal
from actors.network.cards import CardOnFile
from actors.network.custody import CardCustody
from actors.network.respondent import Respondent
from actors.shards.host import ShardHost
from actors.submission import Submission
from actors.vault import Vault
from engine.commands import Command
from engine.ids import shard_of
from engine.iso8583.codec import decode, encode
from engine.iso8583.message import Message
from engine.programmes.programme import Programme
from engine.replies import Done, NotExecuted, Reply
from tests.actors.network.support import lookup_of
from tests.actors.shards.support import NO_PROGRAMME_CALLS
from tests.conformance.conversation import PAN
from tests.engine.build import create_card, create_programme, load

VAULT = Vault((bytes(32),))
ADMIN = create_programme(1)
CARD = create_card(1, programme_id=ADMIN.id)
CENTS = 10_000
SHARDS = sorted({shard_of(ADMIN.id), shard_of(CARD.id)})
_PATIENCE_MS = 60_000


class _Exchange:
    """Whoever waits for one answer."""

    source = ""

    def __init__(self) -> None:
        self.answer_bytes: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(self, response: Message) -> None:
        self.answer_bytes.set_result(encode(response))

    def took_up(self) -> None:
        """One more is being worked on."""

    def settled(self) -> None:
        """... and one less."""

    def recognized(self) -> None:
        """The card is known."""


class Line:
    """``journal_of`` makes the journal of one more host by its name."""

    def __init__(self, clock: Clock, journal_of: Callable[[str], Journal]) -> None:
        self._clock = clock
        self._journal_of = journal_of
        self._hosts: list[ShardHost] = []
        custody = CardCustody(VAULT)
        cards = lookup_of(custody, {PAN: CardOnFile(CARD.id, CARD.exp_year, CARD.exp_month, "1")})
        self._respondent = Respondent(self._submit, cards, custody, deadline_ms=_PATIENCE_MS)

    async def start(self) -> None:
        """One host, one programme, one card with money."""
        await self.renew()
        for command in (ADMIN, CARD, load(1, card_id=CARD.id, amount_minor=CENTS)):
            reply = await self._submit(command)
            assert isinstance(reply, Done), reply

    async def stop(self) -> None:
        for host in self._hosts:
            await host.stop()

    async def renew(self) -> None:
        """Another host takes over, in good order."""
        journal = self._journal_of(f"host-{len(self._hosts)}")
        await journal.register(f"host-{len(self._hosts)}")
        host = ShardHost(journal, VAULT, self._clock, self._publish, _fenced, NO_PROGRAMME_CALLS)
        host.start()
        if self._hosts:
            await self._hosts[-1].release(SHARDS)
        await host.take(SHARDS)
        self._hosts.append(host)

    async def ask(self, payload: bytes) -> bytes:
        """One message and its answer."""
        exchange = _Exchange()
        self._respondent.respond(exchange, decode(payload))
        return await exchange.answer_bytes

    async def _submit(self, command: Command, *, repeat: bool = False) -> Reply:
        """As the router does: the next owner is asked when one is no longer it."""
        while True:
            (reply,) = await self._hosts[-1].execute([Submission(command, _PATIENCE_MS, repeat=repeat)])
            if reply != NotExecuted("not_owner"):
                return reply
            await asyncio.sleep(0.001)

    async def _publish(self, programme: Programme) -> None:
        for host in self._hosts:
            host.programme_changed(programme)


def _fenced() -> None:
    raise AssertionError("hosts come and go in good order here")
