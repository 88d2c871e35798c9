"""Hosts without Ray or a database server: several in one loop, on one store, with a clock and faults that
tests control."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from actors.journal.contract import JournalError, Rows, UnknownOutcomeError
from actors.journal.memory import MemoryJournal, Point
from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Row
from actors.shards.host import ShardHost
from actors.submission import Submission
from actors.vault import Vault
from engine.commands import Command
from engine.decision.delegation import EndpointResult, Question
from engine.ids import Derived, derive, shard_of
from engine.limits import ACTIVE_CARDS_MAX
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest
from engine.replies import Done, Granted, IdempotencyClaim, Reply, WireAnswer
from tests.support.engine.build import (
    NOW_MS,
    create_card,
    create_programme,
    grant_stand_ins,
    load,
    preview_stand_in,
)

ALL_SHARDS = range(256)
PATIENCE_MS = 3_000
VAULT = Vault((bytes(range(32)),))
WAIT_SECONDS = 60.0

ADMIN = create_programme()
FIRST = create_card(1, programme_id=ADMIN.id)
SECOND = create_card(2, 0x03, programme_id=ADMIN.id)
ACCOUNT = derive(FIRST.id, Derived.ACCOUNT)


class ManualClock:
    """Changes only when a test moves it; wall time and monotonic time move together."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class Hold:
    """A barrier: calls wait at it until ``release``."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._gate = asyncio.Event()

    async def pause(self) -> None:
        self.reached.set()
        await self._gate.wait()

    def release(self) -> None:
        self._gate.set()


class Faults:
    """A ``Fault`` of one journal that a test controls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.commits: list[Rows] = []
        """The rows of every attempted commit."""
        self.away = False
        """Whether the journal is unavailable."""
        self.refuses: Callable[[Rows], JournalError | None] = lambda rows: None
        """Returns the error with which a batch is refused before it is applied, if any."""
        self._failures: dict[tuple[Point, str], list[JournalError]] = {}
        self._holds: dict[tuple[Point, str], Hold] = {}

    def fail(self, point: Point, method: str, *errors: JournalError) -> None:
        """The next calls fail, one for each error."""
        self._failures.setdefault((point, method), []).extend(errors)

    def hold(self, point: Point, method: str) -> Hold:
        """All calls pause at the point until released."""
        hold = self._holds[point, method] = Hold()
        return hold

    async def __call__(self, point: Point, method: str, rows: Rows | None) -> None:
        if point == "before":
            self.calls[method] += 1
            if rows is not None:
                self.commits.append(rows)
            # A round trip: other tasks run meanwhile.
            await asyncio.sleep(0)
        if self.away:
            raise UnknownOutcomeError(method)
        hold = self._holds.get((point, method))
        if hold is not None:
            await hold.pause()
        failures = self._failures.get((point, method))
        if failures:
            raise failures.pop(0)
        if point == "during" and rows is not None:
            refusal = self.refuses(rows)
            if refusal is not None:
                raise refusal


class FakeProgrammes:
    """Calls to delegated programmes: an endpoint that a test controls, and owners in the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.answer: Callable[[Question], EndpointResult] = lambda question: EndpointResult("approved")
        self.questions: list[Question] = []
        self.barrier: Hold | None = None
        self.owner_away = False
        self._numbers = itertools.count(0x5000)

    async def ask(self, programme: Programme, question: Question, timeout_ms: int) -> EndpointResult:
        self.questions.append(question)
        if self.barrier is not None:
            await self.barrier.pause()
        return self.answer(question)

    async def grant(self, programme_id: str, request: StandInRequest) -> Grant | None:
        if self.owner_away:
            return None
        number = next(self._numbers)
        reply = await self._cluster.owner(programme_id).execute_one(
            grant_stand_ins(number, (request,), programme_id)
        )
        return reply.grants[0] if isinstance(reply, Granted) else None

    async def preview(self, programme_id: str, request: StandInRequest) -> Grant | None:
        if self.owner_away:
            return None
        command = preview_stand_in(next(self._numbers), request, programme_id)
        reply = await self._cluster.owner(programme_id).execute_one(command)
        return reply.grants[0] if isinstance(reply, Granted) else None

    def end_outage(self, programme: Programme) -> None:
        if programme.outage is not None:
            self._cluster.ending.append((programme.config.id, programme.outage.id))


class NoProgrammeCalls:
    """For tests without delegated programmes: every call fails the test."""

    async def ask(self, programme: Programme, question: Question, timeout_ms: int) -> EndpointResult:
        raise AssertionError("no programme is delegated")

    async def grant(self, programme_id: str, request: StandInRequest) -> Grant | None:
        raise AssertionError("no programme is delegated")

    async def preview(self, programme_id: str, request: StandInRequest) -> Grant | None:
        raise AssertionError("no programme is delegated")

    def end_outage(self, programme: Programme) -> None:
        raise AssertionError("no programme is delegated")


NO_PROGRAMME_CALLS = NoProgrammeCalls()


class TestHost:
    """A host with the parts that a test controls."""

    __test__ = False

    def __init__(self, name: str, cluster: Cluster, active_cards_max: int) -> None:
        self.name = name
        self.faults = Faults()
        self.fenced = 0
        self.journal = MemoryJournal(cluster.store, name, self.faults)
        self.host = ShardHost(
            self.journal,
            VAULT,
            cluster.clock,
            cluster.publish,
            self._fenced,
            cluster.programmes,
            active_cards_max,
        )

    def _fenced(self) -> None:
        self.fenced += 1

    async def execute(self, *commands: Command, remaining_ms: int = PATIENCE_MS) -> list[Reply]:
        """Execute a batch."""
        return await self.host.execute([Submission(command, remaining_ms) for command in commands])

    async def execute_one(
        self,
        command: Command,
        *,
        remaining_ms: int = PATIENCE_MS,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
    ) -> Reply:
        """Execute one command."""
        (reply,) = await self.host.execute([Submission(command, remaining_ms, claim, presentation)])
        return reply

    def submit(self, *commands: Command, remaining_ms: int = PATIENCE_MS) -> asyncio.Task[list[Reply]]:
        """Execute a batch in the background."""
        return asyncio.create_task(self.execute(*commands, remaining_ms=remaining_ms))


class Cluster:
    """Hosts that share a store and receive announcements of programme changes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now_ms)
        self.hosts: dict[str, TestHost] = {}
        self.programmes = FakeProgrammes(self)
        self.ending: list[tuple[str, str]] = []
        """Outages to be ended because a usable answer has arrived: programme and outage."""
        self.published: list[Programme] = []
        self.publishing: Hold | None = None
        self.publish_failures: list[Exception] = []

    def owner(self, id_: str) -> TestHost:
        """The current owner of ``id_``."""
        return self.hosts[self.store.owners[shard_of(id_)] or ""]

    async def publish(self, programme: Programme) -> None:
        """Announce the version to every host, as the coordinator does."""
        if self.publishing is not None:
            await self.publishing.pause()
        if self.publish_failures:
            raise self.publish_failures.pop(0)
        self.published.append(programme)
        for host in self.hosts.values():
            host.host.programme_changed(programme)

    async def add(
        self, name: str, shards: Iterable[int] = (), active_cards_max: int = ACTIVE_CARDS_MAX
    ) -> TestHost:
        """Start a host that takes ``shards``."""
        host = self.hosts[name] = TestHost(name, self, active_cards_max)
        await host.journal.register(name)
        host.host.start()
        if shards := list(shards):
            await host.host.take(shards)
        return host

    async def stop(self) -> None:
        """Stop every host after ending all faults and holds."""
        for host in self.hosts.values():
            host.faults.away = False
            for hold in host.faults._holds.values():
                hold.release()
            await host.host.stop()

    def journal_of(self, actor_id: str) -> list[Row]:
        """The journal rows of a card or programme, in order."""
        rows = [row for row in self.store.journal.rows.values() if row["actor_id"] == actor_id]
        return sorted(rows, key=lambda row: int(row["seq"]))


async def furnish(host: TestHost, *, cents: int = 10_000) -> None:
    """Create a programme and two cards on different shards, and load the first."""
    replies = [
        *await host.execute(ADMIN),
        *await host.execute(FIRST, SECOND),
        *await host.execute(load(901, card_id=FIRST.id, amount_minor=cents)),
    ]
    assert all(isinstance(reply, Done) for reply in replies), replies


async def turns(condition: Callable[[], Any]) -> None:
    """Run the loop until ``condition`` holds; the test fails after ``WAIT_SECONDS``."""
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "the condition did not hold in time"
        await asyncio.sleep(0)


async def idle(count: int = 50) -> None:
    """Run the loop until all ready tasks wait again."""
    for _ in range(count):
        await asyncio.sleep(0)


def approved(reply: Reply) -> bool:
    """Whether the reply approves an authorization."""
    return isinstance(reply, WireAnswer) and reply.response_code in {"00", "10", "85"}
