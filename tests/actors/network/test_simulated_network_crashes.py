"""The promise of ``stan`` through a crash at any point (spec 3.4, 4.3; contract, section 6).

The simulated network dies between two steps, every two that there are: around the STAN block, around the
row, around the first byte, around the records of what was sent and heard. What a caller can read afterwards
must be true: a null ``stan`` means that nothing was ever on the wire, and a message is on the wire only
after its row says so. The next life of the network then finishes what must arrive.

The steps are cut from outside, by a book and a wire that die; nothing in the network knows of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest

from actors.ids import new_id
from actors.network.acquirer_session import AcquirerSession
from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsById
from actors.network.database import NetworkDbConnection
from actors.network.exchange import MessageCommand
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.simulated_network import SimulatedNetwork
from actors.network.simulation_store import PreparedFollowUp, RecordedSimulation, Simulation, StateChange
from actors.vault import Vault
from engine.commands import Command
from engine.iso8583.message import Message
from engine.replies import Reply
from engine.simulation import (
    ClearingRequest,
    ForcePostRequest,
    IncrementRequest,
    Original,
    ReversalRequest,
    SimulationRequest,
)
from tests.actors.network.fakes import card_lookup
from tests.actors.network.rows import TENANT_ID
from tests.actors.network.simulations import rows, spend
from tests.actors.network.support import CARD_ID, Harness, running_edge

ACQUIRER: Final = "424242"


class After(msgspec.Struct, frozen=True):
    """What may stand afterwards: the states of the row, if there is one, and whether anything was heard at
    the other end (``None``: the bytes were on their way)."""

    states: frozenset[str | None]
    heard: bool | None


def _after(*states: str | None, heard: bool | None) -> After:
    return After(frozenset(states), heard)


POINTS: Final = {
    "before the numbers": _after(None, heard=False),
    "after the numbers": _after(None, heard=False),
    "before the row": _after(None, heard=False),
    "after the row": _after("accepted", heard=False),
    "before the first byte": _after("accepted", heard=False),
    "with the message queued": _after("accepted", heard=False),
    "before it is recorded as sent": _after("accepted", heard=None),
    "after the first byte": _after("accepted", "sent", heard=True),
    "after it is recorded as sent": _after("sent", heard=None),
    "before the answer is recorded": _after("accepted", "sent", heard=True),
    "after the answer is recorded": _after("decided", heard=True),
}
NOT_STATED: Final = [point for point, after in POINTS.items() if None in after.states]


class Death:
    """Comes at one point; from then on nothing of this life happens any more."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.came = asyncio.Event()

    async def at(self, point: str) -> None:
        """Dies here, if this is where; the dead do not go on."""
        if point == self.point:
            self.came.set()
        if self.came.is_set():
            await asyncio.Event().wait()

    def now(self, point: str) -> bool:
        """The same where nobody can wait: whether this life is over."""
        if point == self.point:
            self.came.set()
        return self.came.is_set()


class CrashingStore:
    """A book whose owner can die before and after each of its steps."""

    def __init__(self, store: PostgresSimulationStore, death: Death) -> None:
        self._store = store
        self._death = death

    async def take_stans(self, count: int) -> list[int]:
        await self._death.at("before the numbers")
        taken = await self._store.take_stans(count)
        await self._death.at("after the numbers")
        return taken

    async def insert(self, simulations: Sequence[Simulation]) -> None:
        await self._death.at("before the row")
        await self._store.insert(simulations)
        await self._death.at("after the row")

    async def insert_follow_ups(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        await self._death.at("before the row")
        opened = await self._store.insert_follow_ups(follow_ups, automatic=automatic)
        await self._death.at("after the row")
        return opened

    async def open_minor(self, simulation_id: str) -> int:
        return await self._store.open_minor(simulation_id)

    async def unanswered(self) -> list[Simulation]:
        return await self._store.unanswered()

    def record(self, change: StateChange) -> None:
        what = "it is recorded as sent" if change.state == "sent" else "the answer is recorded"
        if not self._death.now(f"before {what}"):
            self._store.record(change)
            asyncio.get_running_loop().create_task(self._recorded(f"after {what}"))

    async def _recorded(self, point: str) -> None:
        await self._store.drain()
        self._death.now(point)

    async def drain(self) -> None:
        await self._store.drain()


class CrashingTransport:
    """A session that falls silent with its owner."""

    def __init__(self, session: AcquirerSession, death: Death) -> None:
        self._session = session
        self._death = death

    async def connected(self, timeout_seconds: float) -> None:
        await self._session.connected(timeout_seconds)
        await self._death.at("before the first byte")

    def send(self, message: Message) -> asyncio.Future[Message]:
        if self._death.came.is_set():
            raise asyncio.CancelledError
        answer = self._session.send(message)
        if self._death.now("with the message queued"):
            # Before the loop turns: what is queued never leaves.
            assert self._session._connection is not None
            self._session._connection.abort()
            raise asyncio.CancelledError
        return answer

    def forget(self, message: Message) -> None:
        self._session.forget(message)


class Watch:
    """What arrives at the edge, and whether a row announced it."""

    def __init__(self, harness: Harness, url: str, death: Death) -> None:
        self._url = url
        self._death = death
        self._submit = harness.owners.submit
        self.seen: set[str] = set()
        self.unannounced: list[str] = []
        harness.respondent._submit = self.submit

    async def submit(self, command: Command, *, repeat: bool = False) -> Reply:
        assert isinstance(command, MessageCommand)
        stan = command.wire.stan
        self.seen.add(stan)
        # The row is looked up now: later it would prove nothing.
        if stan not in {row["stan"] for row in (await rows(self._url)).values()}:
            self.unannounced.append(stan)
        self._death.now("after the first byte")
        if self._death.point == "after it is recorded as sent":
            await self._death.came.wait()
        return await self._submit(command)


async def live(
    harness: Harness, url: str, cards: CardsById, requests: Sequence[SimulationRequest], death: Death
) -> None:
    """One life of the network, up to its death: then the connection is reset and nothing is awaited."""
    db_connections = [NetworkDbConnection(url, "mortal-opening"), NetworkDbConnection(url, "mortal-moving")]
    session = AcquirerSession(*harness.address)
    session.start()
    await session.connected(10)
    store = PostgresSimulationStore(ACQUIRER, *db_connections)
    network = SimulatedNetwork(CrashingTransport(session, death), CrashingStore(store, death), cards)
    accepting = asyncio.create_task(network.accept(requests))
    async with asyncio.timeout(60):
        await death.came.wait()
    connection = session._connection
    assert connection is not None
    connection.abort()
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    await network._flows.stop()
    await session.stop()
    # What had been handed to the database before the end happens.
    await store.drain()
    for db in db_connections:
        db.close()


@asynccontextmanager
async def a_good_life(harness: Harness, url: str, cards: CardsById) -> AsyncIterator[SimulatedNetwork]:
    """A life of the network that ends when all its legs have."""
    db_connections = [NetworkDbConnection(url, "test-opening"), NetworkDbConnection(url, "test-moving")]
    session = AcquirerSession(*harness.address)
    session.start()
    network = SimulatedNetwork(session, PostgresSimulationStore(ACQUIRER, *db_connections), cards)
    yield network
    await asyncio.gather(*network._flows._flows)
    await network.stop()
    await session.stop()
    for db in db_connections:
        db.close()


async def resurrect(harness: Harness, url: str, cards: CardsById) -> None:
    """The next life: it repeats what must arrive."""
    async with a_good_life(harness, url, cards) as network:
        await network.resume()


async def sale(harness: Harness, url: str, cards: CardsById) -> Original:
    """An approved sale, for what follows one."""
    request = spend(accepted_ms=now_ms())
    async with a_good_life(harness, url, cards) as network:
        (accepted,) = await network.accept([request])
    assert accepted.stan
    assert accepted.rrn
    assert accepted.network_txn_id
    return Original(
        request=request, stan=accepted.stan, rrn=accepted.rrn, network_txn_id=accepted.network_txn_id
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def request_of(kind: str, original: Original) -> SimulationRequest:
    about: dict[str, Any] = {"simulation_id": new_id(0xA7), "accepted_ms": now_ms()}
    if kind == "spend":
        return spend(**about)
    if kind == "force post":
        return ForcePostRequest(
            **about,
            tenant_id=TENANT_ID,
            card_id=CARD_ID,
            amount_minor=700,
            currency="EUR",
            mcc="5411",
            merchant_name="Corner shop",
            merchant_country="IE",
        )
    if kind == "increment":
        return IncrementRequest(**about, original=original, amount_minor=500)
    if kind == "reversal":
        return ReversalRequest(**about, original=original)
    return ClearingRequest(**about, original=original)


@pytest.mark.parametrize("kind", ["spend", "increment", "reversal", "clearing", "force post"])
async def test_row_after_a_crash_matches_the_wire(
    kind: str, vault: Vault, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MIN", 0.001)
    cards = card_lookup()
    async with running_edge(CardSecrets(vault)) as harness:
        for point in POINTS:
            original = await sale(harness, database_url, cards)
            request, death = request_of(kind, original), Death(point)
            watch = Watch(harness, database_url, death)
            await live(harness, database_url, cards, [request], death)
            row = (await rows(database_url)).get(request.simulation_id)
            the_row_is_true(point, row, watch)
            await resurrect(harness, database_url, cards)
            row = (await rows(database_url)).get(request.simulation_id)
            what_must_arrive_has(kind, row, watch)
            assert watch.unannounced == [], point
            harness.respondent._submit = harness.owners.submit


def the_row_is_true(point: str, row: dict[str, Any] | None, watch: Watch) -> None:
    """Contract, section 6: the row is there with its references before the first byte, or there is
    nothing."""
    after = POINTS[point]
    assert (row["state"] if row else None) in after.states, point
    assert after.heard in (None, bool(watch.seen)), point
    if row is not None:
        assert row["stan"] is not None, point
        assert row["rrn"] is not None, point
        assert watch.seen <= {row["stan"]}, point


def what_must_arrive_has(kind: str, row: dict[str, Any] | None, watch: Watch) -> None:
    """Reversals and presentments are repeated until they are answered; a request never is."""
    if row is None:
        assert not watch.seen
    elif kind in ("spend", "increment"):
        assert row["state"] in ("accepted", "sent", "decided")
    else:
        assert row["state"] == "decided"
        assert watch.seen == {row["stan"]}


async def test_spend_refused_before_its_message_has_no_stan(
    vault: Vault, database_url: str
) -> None:
    """... and is never on the wire, whenever the network dies."""
    cards = card_lookup()
    async with running_edge(CardSecrets(vault)) as harness:
        for point in NOT_STATED:
            request = spend(amount_minor=10**12, accepted_ms=now_ms())
            death = Death(point)
            watch = Watch(harness, database_url, death)
            await live(harness, database_url, cards, [request], death)
            await resurrect(harness, database_url, cards)
            assert watch.seen == set()
            assert request.simulation_id not in await rows(database_url)
        death = Death("after the row")
        watch = Watch(harness, database_url, death)
        await live(harness, database_url, cards, [request], death)
        await resurrect(harness, database_url, cards)
        row = (await rows(database_url))[request.simulation_id]
        assert (row["state"], row["stan"], row["rrn"], watch.seen) == ("failed", None, None, set())
        assert msgspec.json.decode(row["failure"])["stage"] == "pre_build"
