"""Failed simulations get the outcome in the journal, unless it was reversed."""

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
from engine.iso8583.content import Presentment
from engine.iso8583.content_reader import read
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
from tests.support.actors.network.fakes import FakeTransport, card_lookup
from tests.support.actors.network.simulations import NOW_MS, rows, sales, spend
from tests.support.actors.network.support import CARD_ID, WAIT_SECONDS, until

AUTHORIZATION_ID = new_id(0xA7)
APPROVED = WireAnswer("00", AUTHORIZATION_ID, "ABC123", 12_34)
DECLINED = WireAnswer("51", AUTHORIZATION_ID)


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MIN", 0.001)
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MAX", 0.01)
    # A flow must not give up while a test on a slow machine prepares its connection.
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1_000_000)


class NetworkRun:
    """One run of the simulated network on a real database, with a fake transport."""

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
        """Accept ``request``. Returns its message, which has no answer."""
        before = len(self.transport.sent)
        await self.network.accept([request])
        await until(lambda: len(self.transport.sent) > before)
        return self.transport.sent[before]

    def lose_connection(self) -> None:
        """End the connection before the answers arrive. It stays down."""
        self.transport.up = False
        for answer in self.transport.answers:
            if not answer.done():
                answer.set_exception(SessionLostError())

    async def row(self, simulation_id: str, state: str) -> dict[str, Any]:
        """Wait until the row is in ``state``."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                await self.store.drain()
                row = (await rows(self.url))[simulation_id]
                if row["state"] == state:
                    return row
                await asyncio.sleep(0.005)

    async def recover(self) -> int:
        recovered = await self.recovery.step()
        await self.store.drain()
        return recovered


@asynccontextmanager
async def network_run(url: str, *, timeout_ms: int = 60_000, **options: Any) -> AsyncIterator[NetworkRun]:
    """A network that waits ``timeout_ms`` for answers. The default is longer than any test takes."""
    transport, cards = FakeTransport(), card_lookup()
    db_connections = [NetworkDbConnection(url, f"test-{use}") for use in ("inserts", "updates", "recovery")]
    store = PostgresSimulationStore("424242", db_connections[0], db_connections[1], auto_clear_seconds=3600)
    network = SimulatedNetwork(transport, store, cards, timeout_ms=timeout_ms)
    recovery = OutcomeRecovery(network, cards, db_connections[2], after_seconds=0, **options)
    try:
        yield NetworkRun(transport, network, store, recovery, url)
    finally:
        await recovery.stop()
        await network.stop()
        for db in db_connections:
            db.close()


@pytest.fixture
async def run(database_url: str) -> AsyncIterator[NetworkRun]:
    async with network_run(database_url) as running:
        yield running


async def commit(url: str, key: bytes, answer: WireAnswer) -> None:
    """Insert the journal row of a command with this key, as its owner does."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "INSERT INTO journal_rows (actor_id, seq, epoch, command_key, kind, command, reply, recorded_at)"
        " SELECT $1, coalesce(max(seq), 0) + 1, 1, $2, 'authorize', '{}', $3, now() FROM journal",
        CARD_ID,
        key,
        msgspec.json.encode(answer).decode(),
    )
    await connection.close()


def key_of(message: Message, domain: str = AUTHORIZATION) -> bytes:
    return command_key(wire_identity(message), domain)


async def test_decline_after_a_lost_connection_decides_the_row(run: NetworkRun, database_url: str) -> None:
    request = spend()
    message = await run.sent(request)
    await commit(database_url, key_of(message), DECLINED)
    run.lose_connection()
    failed = await run.row(request.simulation_id, "failed")
    assert msgspec.json.decode(failed["failure"])["code"] == "connection_lost"
    assert await run.recover() == 1
    row = await run.row(request.simulation_id, "decided")
    assert (row["response_code"], row["auth"], row["failure"]) == ("51", AUTHORIZATION_ID, None)
    assert (row["approved_minor"], row["decided_at"] is not None) == (None, True)
    assert await run.recover() == 0
    assert await sales(database_url) == {}


async def test_approval_is_recovered_after_a_restart_and_scheduled(database_url: str) -> None:
    request = spend()
    async with network_run(database_url) as first:
        message = await first.sent(request)
        await commit(database_url, key_of(message), APPROVED)
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with network_run(database_url) as second:
        assert await second.recover() == 1
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
    async with network_run(database_url) as first:
        message = await first.sent(request)
        partial = msgspec.structs.replace(APPROVED, response_code="10", approved_minor=5_00)
        await commit(database_url, key_of(message), partial)
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with network_run(database_url) as second:
        assert await second.recover() == 1
        row = await second.row(request.simulation_id, "decided")
    assert (row["response_code"], row["approved_minor"]) == ("10", 5_00)
    assert (await sales(database_url))[request.simulation_id]["open_minor"] == 5_00


async def test_approval_reversed_by_the_network_stays_failed(run: NetworkRun, database_url: str) -> None:
    request = spend()
    message = await run.sent(request)
    await commit(database_url, key_of(message), APPROVED)
    run.lose_connection()
    await run.row(request.simulation_id, "failed")
    # The flow still waits for a connection to send its reversal.
    assert await run.recover() == 0
    run.transport.up = True
    await until(lambda: len(run.transport.sent) == 2)
    await commit(database_url, key_of(run.transport.sent[1], REVERSAL), WireAnswer("00", AUTHORIZATION_ID))
    run.transport.answer(1, "00")
    await asyncio.gather(*run.network._flows._flows)
    assert await run.recover() == 0
    assert (await run.row(request.simulation_id, "failed"))["response_code"] is None
    assert await sales(database_url) == {}


async def test_approval_is_recovered_after_its_reversal_was_given_up(
    run: NetworkRun, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    request = spend()
    message = await run.sent(request)
    await commit(database_url, key_of(message), APPROVED)
    run.lose_connection()
    await run.row(request.simulation_id, "failed")
    await asyncio.gather(*run.network._flows._flows)
    assert await run.recover() == 1
    await run.row(request.simulation_id, "decided")
    assert (await sales(database_url))[request.simulation_id]["open_minor"] == 12_34


@pytest.mark.parametrize(("code", "recovered"), [("00", 0), ("21", 1)])
async def test_approval_reversed_late_by_an_edge_stays_failed(
    code: str, recovered: int, database_url: str
) -> None:
    """With 21 the late reversal had no effect, so the approval stands."""
    request = spend()
    async with network_run(database_url) as first:
        message = await first.sent(request)
        await commit(database_url, key_of(message), APPROVED)
        await commit(database_url, late_reversal_key(key_of(message)), WireAnswer(code, AUTHORIZATION_ID))
        first.lose_connection()
        await first.row(request.simulation_id, "failed")
    async with network_run(database_url) as second:
        assert await second.recover() == recovered
        await second.row(request.simulation_id, "decided" if recovered else "failed")
    assert len(await sales(database_url)) == recovered


async def test_message_that_never_arrived_stays_failed(run: NetworkRun, database_url: str) -> None:
    run.transport.up = False
    request, refused = spend(), spend(amount_minor=10**12)
    await run.network.accept([request, refused])
    await run.row(request.simulation_id, "failed")
    # A decision on another message.
    other = WireIdentity("424242", "999999", "1122190000", "632619999999")
    await commit(database_url, command_key(other, AUTHORIZATION), APPROVED)
    for _ in range(2):
        assert await run.recover() == 0
    assert {row["state"] for row in (await rows(database_url)).values()} == {"failed"}


async def test_failure_is_looked_up_within_its_time_window(run: NetworkRun, database_url: str) -> None:
    request = spend()
    message = await run.sent(request)
    await commit(database_url, key_of(message), DECLINED)
    run.lose_connection()
    await run.row(request.simulation_id, "failed")
    later = NetworkDbConnection(database_url, "test-later")
    assert await OutcomeRecovery(run.network, card_lookup(), later).step() == 0
    later.close()
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE simulations SET failed_at = failed_at - interval '25 hours'")
    await connection.close()
    assert await run.recover() == 0


async def approved_sale(run: NetworkRun) -> Original:
    request = spend()
    number = len(run.transport.sent)
    await run.sent(request)
    run.transport.answer(number, "00")
    row = await run.row(request.simulation_id, "decided")
    return Original(request=request, stan=row["stan"], rrn=row["rrn"], network_txn_id=row["network_txn_id"])


def _arn_key(message: Message) -> bytes:
    # ARN and sequence in DE48.
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
    operation: str, run: NetworkRun, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, key, open_minor = FOLLOW_UPS[operation]
    sale = await approved_sale(run)
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    request = build(sale)
    message = await run.sent(request)
    await commit(database_url, key(message), msgspec.structs.replace(APPROVED, approved_minor=5_00))
    run.lose_connection()
    await run.row(request.simulation_id, "failed")
    await asyncio.gather(*run.network._flows._flows)
    assert await run.recover() == 1
    row = await run.row(request.simulation_id, "decided")
    assert (row["response_code"], row["auth"]) == ("00", AUTHORIZATION_ID)
    assert (await sales(database_url))[sale.request.simulation_id]["open_minor"] == open_minor


async def test_stand_in_is_recovered_after_its_advice_got_no_answer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 1)
    async with network_run(database_url, timeout_ms=20) as run:
        request = spend(scenario="force_stip_timeout")
        message = await run.sent(request)
        # The network replaced the platform's decision by its own, so it is not the outcome.
        await commit(database_url, key_of(message), DECLINED)
        await until(lambda: len(run.transport.sent) == 2)
        assert run.transport.sent[1].mti == "0120"
        run.lose_connection()
        await run.row(request.simulation_id, "failed")
        assert await run.recover() == 0
        await commit(database_url, key_of(run.transport.sent[1], ADVICE), WireAnswer("00", AUTHORIZATION_ID))
        assert await run.recover() == 1
        row = await run.row(request.simulation_id, "decided")
        assert (row["response_code"], row["approval_code"], row["approved_minor"]) == (
            "00",
            row["stan"],
            12_34,
        )
        assert (await sales(database_url))[request.simulation_id]["open_minor"] == 12_34


async def test_steps_cover_all_failures_in_batches(database_url: str) -> None:
    requests = [spend() for _ in range(3)]
    async with network_run(database_url, batch_max=2) as run:
        messages = [await run.sent(request) for request in requests]
        run.lose_connection()
        for request in requests:
            await run.row(request.simulation_id, "failed")
        assert [await run.recover() for _ in range(2)] == [0, 0]
        for message in messages:
            await commit(database_url, key_of(message), DECLINED)
        assert sorted([await run.recover() for _ in range(2)]) == [1, 2]
        for request in requests:
            await run.row(request.simulation_id, "decided")


async def test_recovery_runs_in_the_background(database_url: str) -> None:
    request = spend()
    async with network_run(database_url, poll_seconds=0.01) as run:
        run.recovery.start()
        message = await run.sent(request)
        await commit(database_url, key_of(message), DECLINED)
        run.lose_connection()
        await run.row(request.simulation_id, "decided")
        # A step that begins before the outcome is written counts it again.
        assert run.recovery.counts.recovered >= 1
