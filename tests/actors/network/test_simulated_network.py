"""The simulated network over TCP in front of a real edge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.network.acquirer_session import AcquirerSession
from actors.network.card_secrets import CardSecrets
from actors.network.database import NetworkDbConnection
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.simulated_network import SimulatedNetwork
from engine.commands import Authorize
from engine.simulation import SpendOutcome
from tests.support.actors.network.fakes import FakeTransport, MemorySimulationStore, card_lookup
from tests.support.actors.network.simulations import rows, spend
from tests.support.actors.network.support import (
    CARD_ID,
    WAIT_SECONDS,
    Harness,
    approve,
    decline,
    running_edge,
    until,
)

# Against a real edge ----------------------------------------------------------------------------------------


@asynccontextmanager
async def network_on(harness: Harness, database_url: str) -> AsyncIterator[SimulatedNetwork]:
    db_connections = [
        NetworkDbConnection(database_url, "test-inserts"),
        NetworkDbConnection(database_url, "test-updates"),
    ]
    session = AcquirerSession(*harness.address)
    session.start()
    network = SimulatedNetwork(session, PostgresSimulationStore("424242", *db_connections), card_lookup())
    try:
        yield network
    finally:
        await network.stop()
        await session.stop()
        for db in db_connections:
            db.close()


async def all_decided(database_url: str, count: int) -> dict[str, dict[str, Any]]:
    """All rows, once ``count`` of them are decided."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            found = await rows(database_url)
            if sum(row["state"] == "decided" for row in found.values()) == count:
                return found
            await asyncio.sleep(0.01)


async def test_spends_are_decided_over_tcp(harness: Harness, database_url: str) -> None:
    harness.owners.decide = lambda command: (
        decline(command) if isinstance(command, Authorize) and command.amount_minor > 50 else approve(command)
    )
    async with network_on(harness, database_url) as network:
        requests = [spend(amount_minor=amount) for amount in range(100)]
        batches = await asyncio.gather(*(network.accept(requests[at : at + 10]) for at in range(0, 100, 10)))
        acceptances = [acceptance for batch in batches for acceptance in batch]
        found = await all_decided(database_url, 100)
    assert [acceptance.simulation_id for acceptance in acceptances] == [
        request.simulation_id for request in requests
    ]
    assert len({acceptance.stan for acceptance in acceptances}) == 100
    for request, acceptance in zip(requests, acceptances, strict=True):
        row = found[request.simulation_id]
        approved = request.amount_minor <= 50
        assert (row["stan"], row["rrn"], row["network_txn_id"]) == (
            acceptance.stan,
            acceptance.rrn,
            acceptance.network_txn_id,
        )
        assert row["response_code"] == ("00" if approved else "51")
        assert row["approved_minor"] == (request.amount_minor if approved else None)
        assert (row["approval_code"] is not None) == approved
        assert row["auth"] in {command.id for command in harness.owners.submitted}
        assert row["sent_at"] is not None


async def test_row_is_committed_before_the_first_byte(harness: Harness, database_url: str) -> None:
    harness.owners.gate.clear()
    async with network_on(harness, database_url) as network:
        (acceptance,) = await network.accept([spend()])
        await until(lambda: harness.owners.submitted)
        row = (await rows(database_url))[acceptance.simulation_id]
        assert (row["stan"], row["rrn"]) == (acceptance.stan, acceptance.rrn)
        assert harness.owners.submitted[0].wire.stan == acceptance.stan
        harness.owners.gate.set()
        await all_decided(database_url, 1)


async def test_request_is_repeated_after_a_reset_connection(
    card_secrets: CardSecrets, database_url: str
) -> None:
    async with running_edge(card_secrets) as first:
        first.owners.gate.clear()
        async with network_on(first, database_url) as network:
            await network.accept([spend()])
            await until(lambda: first.owners.submitted)
            for peer in list(first.edge._connections):
                peer.abort()
            await until(lambda: len(first.owners.submitted) == 2)
            original, repeat = first.owners.submitted
            assert original.command_key == repeat.command_key
            assert original.fingerprint == repeat.fingerprint
            first.owners.gate.set()
            found = await all_decided(database_url, 1)
    assert {row["response_code"] for row in found.values()} == {"00"}


# Against a fake transport -----------------------------------------------------------------------------------


async def test_scenarios_become_fields_of_the_message() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept(
        [
            spend(scenario="partial_approval", approved_amount_minor=5_00),
            spend(scenario="delegated_timeout"),
            spend(scenario="cvv2_presented", cvv2="987"),
            spend(scenario="cavv_presented", auth_value="AAAB", threeds_ref="ref"),
            spend(approved_amount_minor=5_00),
        ]
    )
    await until(lambda: len(transport.sent) == 5)
    tags = [message.fields[48][:].partition("SN")[0] for message in transport.sent]
    assert tags[4] == "04015"
    tails = [message.fields[48][:] for message in transport.sent]
    assert "07012000000000500" in tails[0]
    assert "99017delegated_timeout" in tails[1]
    assert "01003987" in tails[2]
    assert "02004AAAB03003ref" in tails[3]
    await network.stop()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"amount_minor": 10**12}, "amount_too_large"),
        ({"card_id": "01900000-0000-7000-8000-0000000000ff"}, "card_unreadable"),
        ({"scenario": "force_stip_timeout", "kind": "refund"}, "scenario_not_offered"),
        ({"scenario": "force_stip_timeout", "amount_minor": 0}, "scenario_not_offered"),
        ({"scenario": "cavv_presented", "auth_value": "x" * 990}, "message_not_encodable"),
        ({"scenario": "cvv2_presented", "cvv2": "é"}, "message_not_encodable"),
        ({"mcc": "54111"}, "message_not_encodable"),
    ],
)
async def test_refused_spend_has_no_references(changes: dict[str, Any], code: str) -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    refused, accepted = await network.accept([spend(**changes), spend()])
    assert (refused.stan, refused.rrn, refused.network_txn_id) == (None, None, None)
    assert accepted.stan is not None
    assert store.simulations[0].failure is not None
    assert (store.simulations[0].failure.stage, store.simulations[0].failure.code) == ("pre_build", code)
    assert store.simulations[0].stan is None
    await until(lambda: len(transport.sent) == 1)
    await network.stop()


async def test_spend_is_stored_and_sent_only_for_an_active_card() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    unknown = spend(card_id="01900000-0000-7000-8000-0000000000ff")
    absent, accepted = await network.spend([unknown, spend()])
    assert absent == SpendOutcome()
    assert accepted.acceptance is not None
    assert [accepted.acceptance.stan] == [each.stan for each in store.simulations]
    store.card_states = {CARD_ID: "suspended"}
    assert await network.spend([spend()]) == [SpendOutcome(card_state="suspended")]
    await until(lambda: transport.sent)
    assert (len(transport.sent), len(store.simulations)) == (1, 1)
    await network.stop()


async def test_largest_amount_fits_de4() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend(amount_minor=10**12 - 1)])
    await until(lambda: transport.sent)
    assert transport.sent[0].fields[4] == "9" * 12
    await network.stop()


async def test_stop_keeps_recorded_states() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend()])
    await until(lambda: len(transport.sent) == 1)
    await network.stop()
    await network.stop()
    assert store.states == ["sent"]
