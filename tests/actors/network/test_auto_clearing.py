"""Automatic clearing presents each due sale once, in full, also after restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from actors.clock import SystemClock
from actors.ids import new_id
from actors.network.acquirer_session import AcquirerSession
from actors.network.auto_clearing import AutoClearing
from actors.network.database import NetworkDbConnection
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.simulated_network import SimulatedNetwork
from engine.commands import Authorize, Present, Reverse
from engine.replies import WireAnswer
from engine.simulation import (
    ClearingRequest,
    FollowUpRequest,
    ForcePostRequest,
    IncrementRequest,
    Original,
    ReversalRequest,
)
from tests.support.actors.network.fakes import card_lookup
from tests.support.actors.network.rows import TENANT_ID
from tests.support.actors.network.simulations import NOW_MS, rows, sales, spend
from tests.support.actors.network.support import CARD_ID, WAIT_SECONDS, Harness, until

LONG_SECONDS = 3600


class Installation:
    """A simulated network with automatic clearing, in front of the harness's edge."""

    def __init__(self, network: SimulatedNetwork, auto_clearing: AutoClearing, database_url: str) -> None:
        self.network = network
        self.auto_clearing = auto_clearing
        self.database_url = database_url

    async def sale(self, **changes: Any) -> Original:
        """A decided sale."""
        request = spend(**changes)
        (accepted,) = await self.network.accept([request])
        await self.decided(request.simulation_id)
        assert accepted.stan is not None
        assert accepted.rrn is not None
        assert accepted.network_txn_id is not None
        return Original(
            request=request, stan=accepted.stan, rrn=accepted.rrn, network_txn_id=accepted.network_txn_id
        )

    async def follow(self, request: FollowUpRequest) -> dict[str, Any]:
        """The row of a follow-up, once it is decided."""
        await self.network.accept([request])
        return await self.decided(request.simulation_id)

    async def decided(self, simulation_id: str) -> dict[str, Any]:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                row = (await rows(self.database_url)).get(simulation_id)
                if row is not None and row["state"] == "decided":
                    return row
                await asyncio.sleep(0.005)

    async def state_of(self, sale: Original) -> tuple[int, int, bool]:
        """Open amount, number of presentments, and whether the sale is scheduled."""
        row = (await sales(self.database_url))[sale.request.simulation_id]
        return row["open_minor"], row["presentments"], row["due_at"] is not None

    async def fall_due(self) -> None:
        """Make all scheduled sales due."""
        connection = await asyncpg.connect(self.database_url)
        await connection.execute("UPDATE clearing_schedule SET due_at = now() WHERE due_at IS NOT NULL")
        await connection.close()


@asynccontextmanager
async def installation(
    harness: Harness, database_url: str, auto_clear_seconds: int = LONG_SECONDS, **options: Any
) -> AsyncIterator[Installation]:
    db_connections = [
        NetworkDbConnection(database_url, f"test-{use}") for use in ("inserts", "updates", "clearing")
    ]
    session = AcquirerSession(*harness.address)
    session.start()
    store = PostgresSimulationStore(
        "424242", db_connections[0], db_connections[1], auto_clear_seconds=auto_clear_seconds
    )
    network = SimulatedNetwork(session, store, card_lookup())
    auto_clearing = AutoClearing(network, session, db_connections[2], **options)
    try:
        yield Installation(network, auto_clearing, database_url)
    finally:
        await auto_clearing.stop()
        await auto_clearing.stop()
        await network.stop()
        await session.stop()
        for db in db_connections:
            db.close()


@pytest.fixture
async def running(harness: Harness, database_url: str) -> AsyncIterator[Installation]:
    async with installation(harness, database_url) as running:
        yield running


def presented(harness: Harness) -> list[tuple[int, int, bool]]:
    """Amount, sequence and finality of all presentments."""
    return [
        (command.amount_minor, command.sequence, command.final)
        for command in harness.owners.submitted
        if isinstance(command, Present)
    ]


def child(sale: Original) -> dict[str, Any]:
    return {"simulation_id": new_id(0xA7), "accepted_ms": NOW_MS, "original": sale}


async def test_approved_sale_is_presented_in_full(running: Installation, harness: Harness) -> None:
    sale = await running.sale()
    assert await running.state_of(sale) == (12_34, 0, True)
    assert await running.auto_clearing.clear_batch() == 0
    await running.fall_due()
    assert await running.auto_clearing.clear_batch() == 1
    assert presented(harness) == [(12_34, 1, True)]
    assert await running.state_of(sale) == (0, 1, False)
    await until(lambda: harness.respondent.counts.answered == 2)
    children = [row for row in (await rows(running.database_url)).values() if row["parent_simulation_id"]]
    (row,) = children
    assert (row["operation"], str(row["parent_simulation_id"])) == ("clearing", sale.request.simulation_id)
    assert (await running.decided(row["key"]))["approved_minor"] == 12_34
    assert await running.auto_clearing.clear_batch() == 0


async def test_only_approved_amounts_of_sales_are_scheduled(running: Installation, harness: Harness) -> None:
    codes = {1: "51", 2: "10", 0: "85", 4: "00"}

    def decide(command: Any) -> WireAnswer:
        if not isinstance(command, Authorize):
            return WireAnswer("00", command.id)
        code = codes[command.amount_minor % 10]
        approved_minor = {"10": 1_00, "00": command.amount_minor}.get(code, 0)
        return WireAnswer(code, command.id, None if code == "51" else "ABC123", approved_minor)

    harness.owners.decide = decide
    sales_ = [await running.sale(amount_minor=amount) for amount in (1_01, 1_02, 0, 1_04)]
    refund = await running.sale(amount_minor=1_04, kind="refund")
    found = await sales(running.database_url)
    assert {key: row["open_minor"] for key, row in found.items()} == {
        sales_[1].request.simulation_id: 1_00,
        sales_[3].request.simulation_id: 1_04,
    }
    assert refund.request.simulation_id not in found


async def test_increments_and_partial_reversals_change_what_is_presented(
    running: Installation, harness: Harness
) -> None:
    sale = await running.sale()
    await running.follow(IncrementRequest(**child(sale), amount_minor=5_00))
    assert await running.state_of(sale) == (17_34, 0, True)
    row = await running.follow(ReversalRequest(**child(sale), amount_minor=2_34))
    assert (row["operation"], row["approved_minor"]) == ("reversal", 2_34)
    reversal = harness.owners.submitted[-1]
    assert isinstance(reversal, Reverse)
    assert reversal.remaining_minor == 15_00
    assert await running.state_of(sale) == (15_00, 0, True)
    await running.follow(ClearingRequest(**child(sale), amount_minor=4_00, final=False))
    assert await running.state_of(sale) == (11_00, 1, True)
    await running.fall_due()
    await running.auto_clearing.clear_batch()
    assert presented(harness) == [(4_00, 1, False), (11_00, 2, True)]


async def test_declined_increment_does_not_change_the_open_amount(
    running: Installation, harness: Harness
) -> None:
    sale = await running.sale()
    harness.owners.decide = lambda command: WireAnswer("51", command.id)
    await running.follow(IncrementRequest(**child(sale), amount_minor=5_00))
    assert await running.state_of(sale) == (12_34, 0, True)


@pytest.mark.parametrize("how", ["clear", "reverse"])
async def test_closed_sale_is_presented_only_on_request(
    running: Installation, harness: Harness, how: str
) -> None:
    sale = await running.sale()
    request = (ClearingRequest if how == "clear" else ReversalRequest)(**child(sale))
    row = await running.follow(request)
    assert row["response_code"] == "00"
    assert (await running.state_of(sale))[::2] == (0, False)
    await running.fall_due()
    assert await running.auto_clearing.clear_batch() == 0
    late = ClearingRequest(**child(sale), amount_minor=1_00)
    await running.follow(late)
    assert presented(harness)[-1] == (1_00, 2 if how == "clear" else 1, True)


async def test_increment_and_partial_reversal_restart_the_clearing_time(running: Installation) -> None:
    sale = await running.sale()
    for request in (
        IncrementRequest(**child(sale), amount_minor=5_00),
        ReversalRequest(**child(sale), amount_minor=1_00),
    ):
        await running.fall_due()
        before = (await sales(running.database_url))[sale.request.simulation_id]["due_at"]
        await running.follow(request)
        after = (await sales(running.database_url))[sale.request.simulation_id]["due_at"]
        assert (after - before).total_seconds() > LONG_SECONDS - WAIT_SECONDS


async def test_retried_follow_up_is_recorded_once(running: Installation, harness: Harness) -> None:
    sale = await running.sale()
    request = ClearingRequest(**child(sale), amount_minor=1_00, final=False)
    acceptances = await asyncio.gather(*(running.network.accept([request]) for _ in range(5)))
    assert all(each == acceptances[0] for each in acceptances)
    await running.decided(request.simulation_id)
    assert presented(harness) == [(1_00, 1, False)]
    assert await running.state_of(sale) == (11_34, 1, True)


async def test_parallel_presentments_have_distinct_sequence_numbers(
    running: Installation, harness: Harness, database_url: str
) -> None:
    sale = await running.sale()
    async with installation(harness, database_url) as other:
        requests = [ClearingRequest(**child(sale), amount_minor=10, final=False) for _ in range(20)]
        await asyncio.gather(
            *((running, other)[number % 2].follow(request) for number, request in enumerate(requests))
        )
    assert sorted(sequence for _, sequence, _ in presented(harness)) == list(range(1, 21))
    assert await running.state_of(sale) == (12_34 - 200, 20, True)


async def test_refused_clearing_leaves_a_row_only_if_requested(running: Installation) -> None:
    sale = await running.sale()
    await running.follow(ReversalRequest(**child(sale)))
    assert await running.network.clear([sale]) == []
    request = ClearingRequest(**child(sale))
    (acceptance,) = await running.network.accept([request])
    assert acceptance.stan is None
    row = (await rows(running.database_url))[request.simulation_id]
    assert (row["state"], row["operation"]) == ("failed", "clearing")


async def test_force_post_is_presented(running: Installation, harness: Harness) -> None:
    row = await running.follow(
        ForcePostRequest(
            simulation_id=new_id(0xA7),
            accepted_ms=NOW_MS,
            tenant_id=TENANT_ID,
            card_id=CARD_ID,
            amount_minor=7_00,
            currency="EUR",
            mcc="5411",
            merchant_name="Kiosk",
            merchant_country="IE",
        )
    )
    assert (row["operation"], row["parent_simulation_id"], row["approved_minor"]) == ("clearing", None, 7_00)
    assert presented(harness) == [(7_00, 1, True)]


async def test_sales_due_at_once_are_presented_in_batches(harness: Harness, database_url: str) -> None:
    async with installation(harness, database_url, batch_max=10, poll_seconds=0.01) as running:
        requests = [spend(amount_minor=1 + number) for number in range(55)]
        await running.network.accept(requests)
        for request in requests:
            await running.decided(request.simulation_id)
        await running.fall_due()
        running.auto_clearing.start()
        running.auto_clearing.start()
        await until(lambda: len(presented(harness)) == 55)
        assert sorted(amount for amount, _, _ in presented(harness)) == list(range(1, 56))
        await until(lambda: running.auto_clearing.counts.cleared == 55)


async def test_two_networks_share_the_due_sales(harness: Harness, database_url: str) -> None:
    async with (
        installation(harness, database_url, batch_max=7) as running,
        installation(harness, database_url, batch_max=7) as other,
    ):
        for number in range(20):
            await running.sale(amount_minor=1 + number)
        await running.fall_due()
        counts = await asyncio.gather(*(each.auto_clearing.clear_batch() for each in (running, other) * 3))
        assert sum(counts) == 20
        assert sorted(amount for amount, _, _ in presented(harness)) == list(range(1, 21))


async def test_clearing_schedule_survives_a_restart(harness: Harness, database_url: str) -> None:
    async with installation(harness, database_url) as before:
        await before.sale()
        await before.fall_due()
    async with installation(harness, database_url) as after:
        assert await after.auto_clearing.clear_batch() == 1
        assert presented(harness) == [(12_34, 1, True)]


async def test_interrupted_presentment_is_repeated_after_a_restart(
    harness: Harness, database_url: str
) -> None:
    async with installation(harness, database_url) as before:
        sale = await before.sale()
        harness.owners.gate.clear()
        # Recent, because ``resume`` repeats only follow-ups of the last hours.
        lately = child(sale) | {"accepted_ms": SystemClock().now_ms()}
        await before.network.accept([ClearingRequest(**lately)])
        await until(lambda: presented(harness))
    harness.owners.gate.set()
    async with installation(harness, database_url) as after:
        assert await after.network.resume() == 1
        await until(lambda: len(presented(harness)) == 2)
        first, repeated = (command for command in harness.owners.submitted if isinstance(command, Present))
        assert (first.command_key, first.fingerprint) == (repeated.command_key, repeated.fingerprint)
        found = await rows(database_url)
        (key,) = (key for key, row in found.items() if row["operation"] == "clearing")
        assert (await after.decided(key))["response_code"] == "00"
        assert await after.network.resume() == 0


async def test_no_sale_is_due_without_automatic_clearing(harness: Harness, database_url: str) -> None:
    async with installation(harness, database_url, auto_clear_seconds=0) as running:
        sale = await running.sale()
        assert await running.state_of(sale) == (12_34, 0, False)
        await running.follow(IncrementRequest(**child(sale), amount_minor=5_00))
        assert await running.state_of(sale) == (17_34, 0, False)
        await running.follow(ReversalRequest(**child(sale), amount_minor=1_00))
        assert await running.state_of(sale) == (16_34, 0, False)


async def test_clearing_continues_after_missing_database_and_connection(harness: Harness) -> None:
    unreachable = NetworkDbConnection("postgresql://nobody@127.0.0.1:1/nothing", "test-db", timeout_ms=200)
    session = AcquirerSession("127.0.0.1", 1)
    store = PostgresSimulationStore("424242", unreachable, unreachable)
    network = SimulatedNetwork(session, store, card_lookup())
    connected = AcquirerSession(*harness.address)
    connected.start()
    all_clearing = [
        AutoClearing(network, transport, unreachable, poll_seconds=0.01) for transport in (session, connected)
    ]
    for auto_clearing in all_clearing:
        auto_clearing.start()
    await connected.connected(WAIT_SECONDS)
    await asyncio.sleep(0.1)
    assert all(
        auto_clearing._task._task is not None and not auto_clearing._task._task.done()
        for auto_clearing in all_clearing
    )
    for auto_clearing in all_clearing:
        await auto_clearing.stop()
    await connected.stop()
