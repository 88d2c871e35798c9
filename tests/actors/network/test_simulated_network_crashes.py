"""Crashes of the simulated network at each point: a row in the API always matches the messages on the wire.

The network crashes before and after each step: taking STANs, inserting the row, sending the first byte,
recording ``sent`` and recording the answer. Afterwards a null ``stan`` must mean that no message was sent,
and every message on the wire must have a row with its STAN. A restarted network then completes reversals and
presentments.

The crashes come from a store and a transport around the real ones; the network's code is unchanged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
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
    SpendRequest,
)
from tests.support.actors.network.fakes import card_lookup
from tests.support.actors.network.rows import TENANT_ID, add_card
from tests.support.actors.network.simulations import rows, spend
from tests.support.actors.network.support import CARD_ID, Harness, running_edge

ACQUIRER: Final = "424242"


class Expected(msgspec.Struct, frozen=True):
    """Allowed states of the row after a crash (``None``: no row), and whether the message arrived at the edge
    (``None``: either)."""

    states: frozenset[str | None]
    arrived: bool | None


def _expected(*states: str | None, arrived: bool | None) -> Expected:
    return Expected(frozenset(states), arrived)


POINTS: Final = {
    "before take_stans": _expected(None, arrived=False),
    "after take_stans": _expected(None, arrived=False),
    "before the insert": _expected(None, arrived=False),
    "after the insert": _expected("accepted", arrived=False),
    "before the first byte": _expected("accepted", arrived=False),
    "with the message queued": _expected("accepted", arrived=False),
    "before recording sent": _expected("accepted", arrived=None),
    "after the first byte": _expected("accepted", "sent", arrived=True),
    "after recording sent": _expected("sent", arrived=None),
    "before recording the answer": _expected("accepted", "sent", arrived=True),
    "after recording the answer": _expected("decided", arrived=True),
}
WITHOUT_ROW: Final = [point for point, expected in POINTS.items() if None in expected.states]


class Crash:
    """A crash at one point. After it, no step of the crashed network completes."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.happened = asyncio.Event()

    async def at(self, point: str) -> None:
        """Crash if this is the point. After the crash, never return."""
        if point == self.point:
            self.happened.set()
        if self.happened.is_set():
            await asyncio.Event().wait()

    def reached(self, point: str) -> bool:
        """``at`` for synchronous code: returns whether the network has crashed."""
        if point == self.point:
            self.happened.set()
        return self.happened.is_set()


class CrashingStore:
    """A store that crashes its network before or after a step."""

    def __init__(self, store: PostgresSimulationStore, crash: Crash) -> None:
        self._store = store
        self._crash = crash

    async def take_stans(self, count: int) -> list[int]:
        await self._crash.at("before take_stans")
        taken = await self._store.take_stans(count)
        await self._crash.at("after take_stans")
        return taken

    async def insert(self, simulations: Sequence[Simulation]) -> None:
        await self._crash.at("before the insert")
        await self._store.insert(simulations)
        await self._crash.at("after the insert")

    async def insert_active(self, simulations: Sequence[Simulation]) -> Mapping[str, str]:
        await self._crash.at("before the insert")
        states = await self._store.insert_active(simulations)
        await self._crash.at("after the insert")
        return states

    async def insert_follow_ups(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        await self._crash.at("before the insert")
        recorded = await self._store.insert_follow_ups(follow_ups, automatic=automatic)
        await self._crash.at("after the insert")
        return recorded

    async def open_minor(self, simulation_id: str) -> int:
        return await self._store.open_minor(simulation_id)

    async def unanswered(self) -> list[Simulation]:
        return await self._store.unanswered()

    def record(self, change: StateChange) -> None:
        what = "recording sent" if change.state == "sent" else "recording the answer"
        if not self._crash.reached(f"before {what}"):
            self._store.record(change)
            asyncio.get_running_loop().create_task(self._recorded(f"after {what}"))

    async def _recorded(self, point: str) -> None:
        await self._store.drain()
        self._crash.reached(point)

    async def drain(self) -> None:
        await self._store.drain()


class CrashingTransport:
    """A session that sends no message after the crash."""

    def __init__(self, session: AcquirerSession, crash: Crash) -> None:
        self._session = session
        self._crash = crash

    async def connected(self, timeout_seconds: float) -> None:
        await self._session.connected(timeout_seconds)
        await self._crash.at("before the first byte")

    def send(self, message: Message) -> asyncio.Future[Message]:
        if self._crash.happened.is_set():
            raise asyncio.CancelledError
        answer = self._session.send(message)
        if self._crash.reached("with the message queued"):
            # Before the next iteration of the loop, so the queued bytes are never sent.
            assert self._session._connection is not None
            self._session._connection.abort()
            raise asyncio.CancelledError
        return answer

    def forget(self, message: Message) -> None:
        self._session.forget(message)


class EdgeWatch:
    """Records which messages arrive at the edge, and which of them had no row at that moment."""

    def __init__(self, harness: Harness, url: str, crash: Crash) -> None:
        self._url = url
        self._crash = crash
        self._submit = harness.owners.submit
        self.seen: set[str] = set()
        self.unrecorded: list[str] = []
        harness.respondent._open_commands._submit = self.submit

    async def submit(self, command: Command, *, repeat: bool = False) -> Reply:
        assert isinstance(command, MessageCommand)
        stan = command.wire.stan
        self.seen.add(stan)
        # Read at the arrival: a row that is inserted later would hide the fault.
        if stan not in {row["stan"] for row in (await rows(self._url)).values()}:
            self.unrecorded.append(stan)
        self._crash.reached("after the first byte")
        if self._crash.point == "after recording sent":
            await self._crash.happened.wait()
        return await self._submit(command)


def accepted(network: SimulatedNetwork, requests: Sequence[SimulationRequest]) -> Awaitable[object]:
    """Spends are called as API servers of this release call them."""
    spends = [request for request in requests if isinstance(request, SpendRequest)]
    return network.accept(requests) if len(spends) < len(requests) else network.spend(spends)


async def run_until_crash(
    harness: Harness, url: str, cards: CardsById, requests: Sequence[SimulationRequest], crash: Crash
) -> None:
    """Run a network until it crashes, then reset its connection."""
    db_connections = [NetworkDbConnection(url, "crash-inserts"), NetworkDbConnection(url, "crash-updates")]
    session = AcquirerSession(*harness.address)
    session.start()
    await session.connected(10)
    store = PostgresSimulationStore(ACQUIRER, *db_connections)
    network = SimulatedNetwork(CrashingTransport(session, crash), CrashingStore(store, crash), cards)
    accepting = asyncio.ensure_future(accepted(network, requests))
    async with asyncio.timeout(60):
        await crash.happened.wait()
    connection = session._connection
    assert connection is not None
    connection.abort()
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    await network._flows.stop()
    await session.stop()
    # Statements that were sent to the database before the crash are executed.
    await store.drain()
    for db in db_connections:
        db.close()


@asynccontextmanager
async def running_network(harness: Harness, url: str, cards: CardsById) -> AsyncIterator[SimulatedNetwork]:
    """A network that runs until all its flows have ended."""
    db_connections = [NetworkDbConnection(url, "test-inserts"), NetworkDbConnection(url, "test-updates")]
    session = AcquirerSession(*harness.address)
    session.start()
    network = SimulatedNetwork(session, PostgresSimulationStore(ACQUIRER, *db_connections), cards)
    yield network
    await asyncio.gather(*network._flows._flows)
    await network.stop()
    await session.stop()
    for db in db_connections:
        db.close()


async def restart(harness: Harness, url: str, cards: CardsById) -> None:
    """Restart the network and complete reversals and presentments."""
    async with running_network(harness, url, cards) as network:
        await network.resume()


async def sale(harness: Harness, url: str, cards: CardsById) -> Original:
    """An approved sale, the original of follow-ups."""
    request = spend(accepted_ms=now_ms())
    async with running_network(harness, url, cards) as network:
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
    await add_card(database_url, CARD_ID)
    async with running_edge(CardSecrets(vault)) as harness:
        for point in POINTS:
            original = await sale(harness, database_url, cards)
            request, crash = request_of(kind, original), Crash(point)
            watch = EdgeWatch(harness, database_url, crash)
            await run_until_crash(harness, database_url, cards, [request], crash)
            row = (await rows(database_url)).get(request.simulation_id)
            check_row(point, row, watch)
            await restart(harness, database_url, cards)
            row = (await rows(database_url)).get(request.simulation_id)
            check_after_restart(kind, row, watch)
            assert watch.unrecorded == [], point
            harness.respondent._open_commands._submit = harness.owners.submit


def check_row(point: str, row: dict[str, Any] | None, watch: EdgeWatch) -> None:
    """The row has its references before the first byte is sent, or no message is sent."""
    expected = POINTS[point]
    assert (row["state"] if row else None) in expected.states, point
    assert expected.arrived in (None, bool(watch.seen)), point
    if row is not None:
        assert row["stan"] is not None, point
        assert row["rrn"] is not None, point
        assert watch.seen <= {row["stan"]}, point


def check_after_restart(kind: str, row: dict[str, Any] | None, watch: EdgeWatch) -> None:
    """Reversals and presentments were repeated until they were answered. Requests were not repeated."""
    if row is None:
        assert not watch.seen
    elif kind in ("spend", "increment"):
        assert row["state"] in ("accepted", "sent", "decided")
    else:
        assert row["state"] == "decided"
        assert watch.seen == {row["stan"]}


async def test_spend_refused_before_its_message_has_no_stan(vault: Vault, database_url: str) -> None:
    """At any crash point, no message of the spend is sent."""
    cards = card_lookup()
    await add_card(database_url, CARD_ID)
    async with running_edge(CardSecrets(vault)) as harness:
        for point in WITHOUT_ROW:
            request = spend(amount_minor=10**12, accepted_ms=now_ms())
            crash = Crash(point)
            watch = EdgeWatch(harness, database_url, crash)
            await run_until_crash(harness, database_url, cards, [request], crash)
            await restart(harness, database_url, cards)
            assert watch.seen == set()
            assert request.simulation_id not in await rows(database_url)
        crash = Crash("after the insert")
        watch = EdgeWatch(harness, database_url, crash)
        await run_until_crash(harness, database_url, cards, [request], crash)
        await restart(harness, database_url, cards)
        row = (await rows(database_url))[request.simulation_id]
        assert (row["state"], row["stan"], row["rrn"], watch.seen) == ("failed", None, None, set())
        assert msgspec.json.decode(row["failure"])["stage"] == "pre_build"
