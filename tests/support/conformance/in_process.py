"""The platform without sockets: bytes to the real respondent and host, bytes back, on any journal.

``exchange`` sends a message. ``replace_host`` moves the shards to a new host with empty memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.clock import Clock
from actors.journal.contract import Journal
from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard
from actors.network.respondent import Respondent
from actors.shards.host import ShardHost
from actors.submission import Submission
from actors.vault import Vault
from engine.commands import Command
from engine.ids import shard_of
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.programmes.programme import Programme
from engine.replies import Done, NotExecuted, Reply
from tests.support.actors.network.support import lookup_of
from tests.support.actors.shards.support import NO_PROGRAMME_CALLS
from tests.support.conformance.conversation import PAN
from tests.support.engine.build import create_card, create_programme, load

VAULT = Vault((bytes(32),))
ADMIN = create_programme(1)
CARD = create_card(1, programme_id=ADMIN.id)
CENTS = 10_000
SHARDS = sorted({shard_of(ADMIN.id), shard_of(CARD.id)})
_PATIENCE_MS = 60_000


class _Requester:
    """The requester of one message."""

    source = ""
    profile = ISO87_ASCII

    def __init__(self) -> None:
        self.answer_bytes: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(self, response: Message) -> None:
        self.answer_bytes.set_result(ISO87_ASCII.encode(response))

    def request_started(self) -> None: ...

    def request_finished(self) -> None: ...

    def card_recognized(self) -> None: ...


class InProcessPlatform:
    """``journal_of`` creates the journal of a host by its name."""

    def __init__(self, clock: Clock, journal_of: Callable[[str], Journal]) -> None:
        self._clock = clock
        self._journal_of = journal_of
        self._hosts: list[ShardHost] = []
        card_secrets = CardSecrets(VAULT)
        cards = lookup_of(card_secrets, {PAN: IssuedCard(CARD.id, CARD.exp_year, CARD.exp_month, "1")})
        self._respondent = Respondent(self._submit, cards, card_secrets, deadline_ms=_PATIENCE_MS)

    async def start(self) -> None:
        """Start a host; create a programme and a funded card."""
        await self.replace_host()
        for command in (ADMIN, CARD, load(1, card_id=CARD.id, amount_minor=CENTS)):
            reply = await self._submit(command)
            assert isinstance(reply, Done), reply

    async def stop(self) -> None:
        for host in self._hosts:
            await host.stop()

    async def replace_host(self) -> None:
        """Move the shards to a new host."""
        journal = self._journal_of(f"host-{len(self._hosts)}")
        await journal.register(f"host-{len(self._hosts)}")
        host = ShardHost(journal, VAULT, self._clock, self._publish, _fenced, NO_PROGRAMME_CALLS)
        host.start()
        if self._hosts:
            await self._hosts[-1].release(SHARDS)
        await host.take(SHARDS)
        self._hosts.append(host)

    async def exchange(self, payload: bytes) -> bytes:
        """Send one message. Returns its answer."""
        requester = _Requester()
        self._respondent.respond(requester, ISO87_ASCII.decode(payload))
        return await requester.answer_bytes

    async def _submit(self, command: Command, *, repeat: bool = False) -> Reply:
        """Like the router: retries on the next owner after ``not_owner``."""
        while True:
            (reply,) = await self._hosts[-1].execute([Submission(command, _PATIENCE_MS, repeat=repeat)])
            if reply != NotExecuted("not_owner"):
                return reply
            await asyncio.sleep(0.001)

    async def _publish(self, programme: Programme) -> None:
        for host in self._hosts:
            host.programme_changed(programme)


def _fenced() -> None:
    raise AssertionError("no host is fenced in these tests")
