"""A deterministic simulation of networks, edges and hosts: compares the answers on the wire with the holds.

Two edges (the real ``Respondent`` over the real ``Router``) call hosts that are slow, lose calls, die before
their replies leave, and lose shards. A network sends each authorization to one edge. Without an answer in
time it sends the repeat to either edge. It reverses no authorization itself, so every remaining inconsistency
is a fault of ours.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard
from actors.network.respondent import Respondent
from actors.peers import PeerGoneError, RoutingTable
from actors.router import Router
from actors.submission import decode_batch, encode_collected, encode_replies
from engine.commands import Authorize, Command
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import approves
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS, SHARD_COUNT
from engine.replies import Done, Reply
from tests.support.actors.network.support import lookup_of, request
from tests.support.actors.shards.simulation import (
    ADMIN,
    CARDS,
    VAULT,
    FaultRates,
    Installation,
    SimulatedHost,
)
from tests.support.engine.build import load

EDGES: Final = 2
NETWORK_SECONDS: Final = 5.0
"""Time for which the network waits for an answer before it sends a repeat."""
IMPATIENT_SECONDS: Final = (NETWORK_SECONDS, 0.05, 1.0, 3.0)
"""The same for an original: an early repeat can be answered in time although the original is late."""
TAKEOVER_SECONDS: Final = (
    0.01,
    1.0,
    AUTHORIZATION_DEADLINE_MS / 1000,
    1.5 * AUTHORIZATION_DEADLINE_MS / 1000,
)
"""Times for which shards of a dead host stay without an owner; the longest exceeds the deadline of the
repeats."""
TABLE_SECONDS: Final = 0.02
PANS: Final = {f"41111111111111{number:02d}": card for number, card in enumerate(CARDS)}


class WireRecord(msgspec.Struct):
    """One authorization as its network knows it: the command key, and every answer with its edge."""

    stan: int
    command_key: bytes | None = None
    answers: list[tuple[int, str]] = msgspec.field(default_factory=list)


class VirtualPeers:
    """``actors.peers.Peers`` of one edge: calls to hosts take time, and their replies are lost when the host
    dies."""

    def __init__(self, installation: WireInstallation) -> None:
        self._installation = installation

    async def execute(self, incarnation: str, batch: bytes) -> bytes:
        caller, submissions = decode_batch(batch)
        return encode_replies(
            await self._call(incarnation, lambda host: host.host.execute_decodable(submissions, caller))
        )

    async def prepare(self, incarnation: str) -> None:
        """There are no connections."""

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        return encode_collected(
            await self._call(incarnation, lambda host: host.host.collect(caller.decode()))
        )

    async def table(self, after: int) -> RoutingTable:
        while self._installation.table.version <= after:  # noqa: ASYNC110 - virtual seconds cost nothing
            await asyncio.sleep(TABLE_SECONDS)
        return self._installation.table

    async def publish_programme(self, programme: bytes) -> None:
        raise AssertionError("edges do not publish")

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        raise AssertionError("edges call hosts only")

    async def _call(self, incarnation: str, work: Any) -> Any:
        host = self._installation.hosts.get(incarnation)
        if host is None or not host.alive:
            raise PeerGoneError(incarnation)
        call = asyncio.ensure_future(work(host))
        death = asyncio.ensure_future(host.dead.wait())
        try:
            await asyncio.wait((call, death), return_when=asyncio.FIRST_COMPLETED)
        finally:
            death.cancel()
            if not call.done():
                call.cancel()
        if not host.alive:
            raise PeerGoneError(incarnation)
        await asyncio.sleep(0.0005)
        return call.result()


class Exchange:
    """Receives an edge's answer to one message."""

    profile = ISO87_ASCII

    def __init__(self, record: WireRecord, edge: int) -> None:
        self._record = record
        self._edge = edge
        self.answered = asyncio.Event()

    @property
    def source(self) -> str:
        return f"edge-{self._edge}"

    def answer(self, response: Message) -> None:
        self._record.answers.append((self._edge, response.fields[39]))
        self.answered.set()

    def request_started(self) -> None: ...

    def request_finished(self) -> None: ...

    def card_recognized(self) -> None: ...


class VirtualEdge:
    """One edge: a router and a respondent."""

    def __init__(self, installation: WireInstallation) -> None:
        card_secrets = CardSecrets(VAULT)
        on_file = {pan: IssuedCard(card.id, card.exp_year, card.exp_month, "1") for pan, card in PANS.items()}
        self.router = Router(VirtualPeers(installation))
        self.router.start()
        self.commands: dict[str, Authorize] = {}
        self.respondent = Respondent(self._submit, lookup_of(card_secrets, on_file), card_secrets)

    def _submit(self, command: Command, *, repeat: bool = False) -> asyncio.Future[Reply]:
        if isinstance(command, Authorize):
            self.commands[command.wire.stan] = command
        return self.router.submit(
            command, timeout_ms=AUTHORIZATION_DEADLINE_MS, reply_timeout_ms=REST_DEADLINE_MS, repeat=repeat
        )


class WireInstallation(Installation):
    """The simulation of one seed. ``wire_records`` has every authorization on the wire."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.wire_records: list[WireRecord] = []
        self.edges: list[VirtualEdge] = []
        self.slow_seconds = self.dice.choice((0.05, 0.5, 2.0))
        """Mean duration of a slow call to the journal."""
        self.table = RoutingTable(1, (None,) * SHARD_COUNT)

    def publish_table(self) -> None:
        """Publish the current owners, as the coordinator does."""
        owners: list[str | None] = [None] * SHARD_COUNT
        for shard, name in self.owners.items():
            owners[shard] = name if self.hosts[name].alive else None
        if tuple(owners) != self.table.owners:
            self.table = RoutingTable(self.table.version + 1, tuple(owners))

    async def give(self, shard: int, host: SimulatedHost) -> None:
        await super().give(shard, host)
        self.publish_table()

    async def repair(self) -> None:
        """Repair after a pause, which can be longer than a network's deadline."""
        dead = [name for name in self.owners.values() if not self.hosts[name].alive]
        self.publish_table()
        if dead:
            await asyncio.sleep(self.dice.choice(TAKEOVER_SECONDS))
        await super().repair()
        self.publish_table()

    def _edge(self) -> int:
        return self.dice.randrange(EDGES)

    async def sell(self, stan: int) -> None:
        """One authorization. Its network waits, and repeats it at most twice; it accepts every answer."""
        pan = self.dice.choice(list(PANS))
        record = WireRecord(stan)
        self.wire_records.append(record)
        amount = f"{self.dice.randint(100, 900):012d}"
        for mti in ("0100", "0101", "0101"):
            edge = self._edge()
            exchange = Exchange(record, edge)
            self.edges[edge].respondent.respond(exchange, request(stan, mti, de2=pan, de4=amount))
            patience = self.dice.choice(IMPATIENT_SECONDS) if mti == "0100" else NETWORK_SECONDS
            try:
                async with asyncio.timeout(patience):
                    await exchange.answered.wait()
                    if self.dice.random() < 0.8:
                        return
                    # The answer is lost on the wire, and the network repeats.
            except TimeoutError:
                pass

    async def kill_after_commits(self) -> None:
        """Kill hosts after a commit, before its replies leave."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / 2.0))
            host = self.dice.choice(self.living() or [None])
            if host is not None:
                await self._kill_after_next_commit(host)

    async def _kill_after_next_commit(self, host: SimulatedHost) -> None:
        commits = host.host.committer.commits
        applied = len(self.store.journal.rows)
        for _ in range(2_000):
            if not host.alive or host.host.committer.commits != commits:
                return
            if len(self.store.journal.rows) > applied:
                self.note(f"dies after its commit {host.name}")
                host.die()
                return
            await asyncio.sleep(0.0004)

    async def live(self) -> None:
        rates, self.rates = self.rates, FaultRates(0, 0, 0, 0, 1)
        await self.repair()
        setup: list[Command] = [ADMIN, *CARDS, *(load(n, card_id=c.id) for n, c in enumerate(CARDS, 1))]
        if self.delegated:
            setup += self._delegation()
        for command in setup:
            record = await self.submit(command)
            assert isinstance(record.reply, Done), record.reply
        self.publish_table()
        self.edges = [VirtualEdge(self) for _ in range(EDGES)]
        self.rates = rates
        for work in (self.watch(), self.disturb_hosts(), self.kill_after_commits()):
            self.spawn(work)
        if self.delegated:
            self.spawn(self.toggle_endpoint())
        await asyncio.gather(*(self._sell_at_random_time(stan) for stan in range(1, 31)))
        await self._settle()

    async def _sell_at_random_time(self, stan: int) -> None:
        await asyncio.sleep(self.dice.uniform(0, 20))
        await self.sell(stan)

    async def _settle(self) -> None:
        """Run without faults until every late reversal is done, and stop the hosts."""
        self.rates = FaultRates(0, 0, 0, 0, 1)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.repair()
        for edge in self.edges:
            await edge.respondent.exchanges.wait_closed()
            while edge.respondent._open_commands.pending or edge.respondent.late_reversals.open:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
            await edge.router.stop()
        for record in self.wire_records:
            for edge in self.edges:
                command = edge.commands.get(f"{record.stan:06d}")
                record.command_key = command.command_key if command else record.command_key
        for host in self.living():
            await host.programmes.exposure.stop()
            await host.host.stop()


def held_minor(installation: Installation, command_key: bytes | None) -> int:
    """The amount that the authorization of a message holds."""
    row = installation.store.command_keys.get(command_key or b"")
    if row is None:
        return 0
    return int(installation.store.transactions.rows[row["authorization_id"]]["held_minor"])


def refused_holds_nothing(installation: WireInstallation) -> None:
    """An authorization without an approving answer holds nothing."""
    for record in installation.wire_records:
        codes = [code for _, code in record.answers]
        if codes and not any(map(approves, codes)):
            assert held_minor(installation, record.command_key) == 0, record


def approved_is_held(installation: WireInstallation) -> None:
    """An approval that an edge has given to its network is held."""
    for record in installation.wire_records:
        if any(approves(code) for _, code in record.answers):
            assert held_minor(installation, record.command_key) > 0, record


WIRE_CHECKS = (refused_holds_nothing, approved_is_held)
