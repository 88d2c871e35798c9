"""Simulations that failed on the wire take the outcome that the journal holds, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from actors.network.acquirer_session import SessionLostError
from actors.network.database import NetworkDbConnection
from actors.network.outcome_recovery import OutcomeRecovery
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.simulated_network import SimulatedNetwork
from engine.commands import WireIdentity
from engine.iso8583.content import Presentment, read
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.identity import (
    ADVICE,
    AUTHORIZATION,
    REVERSAL,
    command_key,
    late_reversal_key,
    presentment_key,
    wire_identity,
)
from engine.iso8583.message import Message
from engine.replies import WireAnswer
from engine.simulation import (
    ClearingRequest,
    FollowUpRequest,
    IncrementRequest,
    Original,
    ReversalRequest,
)
from tests.actors.network.fakes import FakeTransport, card_lookup
from tests.actors.network.simulations import NOW_MS, rows, sales, spend
from tests.actors.network.support import CARD_ID, WAIT_SECONDS, until

AUTHORIZATION_ID = new_id(0xA7)
APPROVED = WireAnswer("00", AUTHORIZATION_ID, "ABC123", 12_34)
DECLINED = WireAnswer("51", AUTHORIZATION_ID)


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MIN", 0.001)
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MAX", 0.01)


class Life:
    """One life of the simulated network on a real database, with the wire in the test's hands."""

    def __init__(
        self,
        transport: FakeTransport,
        network: SimulatedNetwork,
        store: PostgresSimulationStore,
        recovery: OutcomeRecovery,
        url: str,
    ) -> None:
        self.transport = transport
        self.network = network
        self.store = store
        self.recovery = recovery
        self.url = url

    async def sent(self, request: Any) -> Message:
        """The message of ``request``, which has no answer yet."""
        before = len(self.transport.sent)
        await self.network.accept([request])
        await until(lambda: len(self.transport.sent) > before)
        return self.transport.sent[before]

    def lose_connection(self) -> None:
        """The connection ends without an answer and does not come back."""
        self.transport.up = False
        for answer in self.transport.answers:
            if not answer.done():
                answer.set_exception(SessionLostError())

    async def row(self, simulation_id: str, state: str) -> dict[str, Any]:
        """The row, once it is in ``state``."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                await self.store.drain()
                row = (await rows(self.url))[simulation_id]
                if row["state"] == state:
                    return row
                await asyncio.sleep(0.005)

    async def settle(self) -> int:
        settled = await self.recovery.step()
        await self.store.drain()
        return settled


@asynccontextmanager
async def a_life(url: str, **options: Any) -> AsyncIterator[Life]:
    transport, cards = FakeTransport(), card_lookup()
    db_connections = [NetworkDbConnection(url, f"test-{use}") for use in ("opening", "moving", "settling")]
    store = PostgresSimulationStore("424242", db_connections[0], db_connections[1], auto_clear_seconds=3600)
    network = SimulatedNetwork(transport, store, cards, timeout_ms=200)
    recovery = OutcomeRecovery(network, cards, db_connections[2], after_seconds=0, **options)
    try:
        yield Life(transport, network, store, recovery, url)
    finally:
        await recovery.stop()
        await network.stop()
        for db in db_connections:
            db.close()


@pytest.fixture
async def life(database_url: str) -> AsyncIterator[Life]:
    async with a_life(database_url) as running:
        yield running


async def commit(url: str, key: bytes, answer: WireAnswer) -> None:
    """What an owner writes when it executes the command with this key."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "INSERT INTO journal (actor_id, seq, epoch, command_key, kind, command, reply, recorded_at)"
        " SELECT $1, coalesce(max(seq), 0) + 1, 1, $2, 'authorize', '{}', $3, now() FROM journal",
        CARD_ID,
        key,
        msgspec.json.encode(answer).decode(),
    )
    await connection.close()


def key_of(message: Message, domain: str = AUTHORIZATION) -> bytes:
    return command_key(wire_identity(message), domain)


async def test_decline_after_a_lost_connection_decides_the_row(life: Life, database_url: str) -> None:
    request = spend()
    message = await life.sent(request)
    await commit(database_url, key_of(message), DECLINED)
    life.lose_connection()
    failed = await life.row(request.simulation_id, "failed")
    assert msgspec.json.decode(failed["failure"])["code"] == "connection_lost"
    assert await life.settle() == 1
    row = await life.row(request.simulation_id, "decided")
    assert (row["response_code"], row["auth"], row["failure"]) == ("51", AUTHORIZATION_ID, None)
    assert (row["approved_minor"], row["decided_at"] is not None) == (None, True)
    assert await life.settle() == 0
    assert await sales(database_url) == {}


async def test_approval_is_recovered_after_a_restart_and_scheduled(database_url: str) -> None:
    request = spend()
    async with a_life(database_url) as first:
        message = await first.sent(request)
        await commit(database_url, key_of(message), APPROVED)
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with a_life(database_url) as second:
        assert await second.settle() == 1
        row = await second.row(request.simulation_id, "decided")
    assert (row["response_code"], row["approval_code"], row["approved_minor"], row["auth"]) == (
        "00",
        "ABC123",
        12_34,
        AUTHORIZATION_ID,
    )
    sale = (await sales(database_url))[request.simulation_id]
    assert (sale["open_minor"], sale["due_at"] is not None) == (12_34, True)


async def test_partial_approval_is_recovered_with_its_amount(database_url: str) -> None:
    request = spend(scenario="partial_approval")
    async with a_life(database_url) as first:
        message = await first.sent(request)
        partial = msgspec.structs.replace(APPROVED, response_code="10", approved_minor=5_00)
        await commit(database_url, key_of(message), partial)
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with a_life(database_url) as second:
        assert await second.settle() == 1
        row = await second.row(request.simulation_id, "decided")
    assert (row["response_code"], row["approved_minor"]) == ("10", 5_00)
    assert (await sales(database_url))[request.simulation_id]["open_minor"] == 5_00


async def test_approval_reversed_by_the_network_stays_failed(life: Life, database_url: str) -> None:
    request = spend()
    message = await life.sent(request)
    await commit(database_url, key_of(message), APPROVED)
    life.lose_connection()
    await life.row(request.simulation_id, "failed")
    # The reversal waits for a connection.
    assert await life.settle() == 0
    life.transport.up = True
    await until(lambda: len(life.transport.sent) == 2)
    await commit(database_url, key_of(life.transport.sent[1], REVERSAL), WireAnswer("00", AUTHORIZATION_ID))
    life.transport.answer(1, "00")
    await asyncio.gather(*life.network._flows._flows)
    assert await life.settle() == 0
    assert (await life.row(request.simulation_id, "failed"))["response_code"] is None
    assert await sales(database_url) == {}


async def test_approval_is_recovered_after_its_reversal_was_given_up(
    life: Life, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    request = spend()
    message = await life.sent(request)
    await commit(database_url, key_of(message), APPROVED)
    life.lose_connection()
    await life.row(request.simulation_id, "failed")
    await asyncio.gather(*life.network._flows._flows)
    assert await life.settle() == 1
    await life.row(request.simulation_id, "decided")
    assert (await sales(database_url))[request.simulation_id]["open_minor"] == 12_34


@pytest.mark.parametrize(("code", "settled"), [("00", 0), ("21", 1)])
async def test_approval_reversed_late_by_an_edge_stays_failed(
    code: str, settled: int, database_url: str
) -> None:
    """21: the edge's reversal has changed nothing, so the approval stands."""
    request = spend()
    async with a_life(database_url) as first:
        message = await first.sent(request)
        await commit(database_url, key_of(message), APPROVED)
        await commit(database_url, late_reversal_key(key_of(message)), WireAnswer(code, AUTHORIZATION_ID))
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with a_life(database_url) as second:
        assert await second.settle() == settled
        await second.row(request.simulation_id, "decided" if settled else "failed")
    assert len(await sales(database_url)) == settled


async def test_message_that_never_arrived_stays_failed(life: Life, database_url: str) -> None:
    life.transport.up = False
    request, refused = spend(), spend(amount_minor=10**12)
    await life.network.accept([request, refused])
    await life.row(request.simulation_id, "failed")
    # A decision on another message of the same second.
    other = WireIdentity("424242", "999999", "1122190000", "632619999999")
    await commit(database_url, command_key(other, AUTHORIZATION), APPROVED)
    for _ in range(2):
        assert await life.settle() == 0
    assert {row["state"] for row in (await rows(database_url)).values()} == {"failed"}


async def test_failure_is_looked_up_within_its_time_window(life: Life, database_url: str) -> None:
    request = spend()
    message = await life.sent(request)
    await commit(database_url, key_of(message), DECLINED)
    life.lose_connection()
    await life.row(request.simulation_id, "failed")
    later = NetworkDbConnection(database_url, "test-later")
    assert await OutcomeRecovery(life.network, card_lookup(), later).step() == 0
    later.close()
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE simulations SET failed_at = failed_at - interval '25 hours'")
    await connection.close()
    assert await life.settle() == 0


async def approved_sale(life: Life) -> Original:
    request = spend()
    number = len(life.transport.sent)
    await life.sent(request)
    life.transport.answer(number, "00")
    row = await life.row(request.simulation_id, "decided")
    return Original(request=request, stan=row["stan"], rrn=row["rrn"], network_txn_id=row["network_txn_id"])


def _arn_key(message: Message) -> bytes:
    # As the presentment quotes it in DE48: ARN and sequence.
    content = read(message)
    assert isinstance(content, Presentment)
    assert isinstance(content.reference, PresentmentReference)
    return presentment_key(content.purchase.wire, content.reference)


FOLLOW_UPS: dict[str, tuple[Callable[[Original], FollowUpRequest], Callable[[Message], bytes], int]] = {
    "increment": (
        lambda sale: IncrementRequest(
            simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=sale, amount_minor=5_00
        ),
        key_of,
        17_34,
    ),
    "reversal": (
        lambda sale: ReversalRequest(
            simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=sale, amount_minor=2_34
        ),
        lambda message: key_of(message, REVERSAL),
        10_00,
    ),
    "clearing": (
        lambda sale: ClearingRequest(simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=sale),
        _arn_key,
        0,
    ),
}


@pytest.mark.parametrize("operation", FOLLOW_UPS)
async def test_follow_up_that_was_given_up_is_recovered(
    operation: str, life: Life, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, key, open_minor = FOLLOW_UPS[operation]
    sale = await approved_sale(life)
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    request = build(sale)
    message = await life.sent(request)
    await commit(database_url, key(message), msgspec.structs.replace(APPROVED, approved_minor=5_00))
    life.lose_connection()
    await life.row(request.simulation_id, "failed")
    await asyncio.gather(*life.network._flows._flows)
    assert await life.settle() == 1
    row = await life.row(request.simulation_id, "decided")
    assert (row["response_code"], row["auth"]) == ("00", AUTHORIZATION_ID)
    assert (await sales(database_url))[sale.request.simulation_id]["open_minor"] == open_minor


async def test_stand_in_is_recovered_after_its_advice_got_no_answer(
    life: Life, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    request = spend(scenario="force_stip_timeout")
    message = await life.sent(request)
    # The platform's own decision, which the network has replaced, decides nothing.
    await commit(database_url, key_of(message), DECLINED)
    await until(lambda: len(life.transport.sent) == 2)
    assert life.transport.sent[1].mti == "0120"
    life.lose_connection()
    await life.row(request.simulation_id, "failed")
    assert await life.settle() == 0
    await commit(database_url, key_of(life.transport.sent[1], ADVICE), WireAnswer("00", AUTHORIZATION_ID))
    assert await life.settle() == 1
    row = await life.row(request.simulation_id, "decided")
    assert (row["response_code"], row["approval_code"], row["approved_minor"]) == ("00", row["stan"], 12_34)
    assert (await sales(database_url))[request.simulation_id]["open_minor"] == 12_34


async def test_steps_cover_all_failures_in_batches(database_url: str) -> None:
    requests = [spend() for _ in range(3)]
    async with a_life(database_url, batch_max=2) as life:
        messages = [await life.sent(request) for request in requests]
        life.lose_connection()
        for request in requests:
            await life.row(request.simulation_id, "failed")
        assert [await life.settle() for _ in range(2)] == [0, 0]
        for message in messages:
            await commit(database_url, key_of(message), DECLINED)
        assert sorted([await life.settle() for _ in range(2)]) == [1, 2]
        for request in requests:
            await life.row(request.simulation_id, "decided")


async def test_recovery_runs_in_the_background(database_url: str) -> None:
    request = spend()
    async with a_life(database_url, poll_seconds=0.01) as life:
        life.recovery.start()
        message = await life.sent(request)
        await commit(database_url, key_of(message), DECLINED)
        life.lose_connection()
        await life.row(request.simulation_id, "decided")
        assert life.recovery.counts.recovered == 1
