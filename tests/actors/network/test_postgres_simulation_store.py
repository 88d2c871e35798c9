"""The simulation store: STANs are unique, rows are committed before their use, ``decided`` is final."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from actors.network.database import NetworkDbConnection
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.simulation_rows import stored_request
from actors.network.simulation_store import Failure, Simulation, StateChange
from engine.instant import to_ms
from engine.limits import STAN_BLOCK
from engine.simulation import SpendRequest
from tests.support.actors.network.rows import add_card
from tests.support.actors.network.simulations import NOW_MS, rows, spend
from tests.support.actors.network.support import CARD_ID


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresSimulationStore]:
    db_connections = [
        NetworkDbConnection(database_url, "test-inserts"),
        NetworkDbConnection(database_url, "test-updates"),
    ]
    yield PostgresSimulationStore("424242", *db_connections)
    for db in db_connections:
        db.close()


async def test_stans_are_taken_once(store: PostgresSimulationStore, database_url: str) -> None:
    db_connections = [
        NetworkDbConnection(database_url, "test-inserts"),
        NetworkDbConnection(database_url, "test-updates"),
    ]
    other = PostgresSimulationStore("424242", *db_connections)
    takes = [one.take_stans(count) for count in (1, 7, 300, 2 * STAN_BLOCK + 5, 50) for one in (store, other)]
    taken = [serial for numbers in await asyncio.gather(*takes) for serial in numbers]
    assert len(taken) == len(set(taken)) == 2 * (1 + 7 + 300 + 2 * STAN_BLOCK + 5 + 50)
    assert await store.take_stans(0) == []
    for db in db_connections:
        db.close()


async def test_stans_of_a_block_are_consecutive(store: PostgresSimulationStore) -> None:
    assert await store.take_stans(3) == [0, 1, 2]
    assert await store.take_stans(2) == [3, 4]
    rest = await store.take_stans(STAN_BLOCK)
    assert rest == list(range(5, STAN_BLOCK + 5))


async def test_rows_are_committed_when_insert_returns(
    store: PostgresSimulationStore, database_url: str
) -> None:
    accepted = Simulation(request=spend(), stan="000001", rrn="632510000001", network_txn_id="SN1")
    refused = Simulation(
        request=spend(), failed_ms=NOW_MS + 1, failure=Failure("pre_build", "code", "detail")
    )
    await store.insert([accepted, refused])
    found = await rows(database_url)
    row = found[accepted.request.simulation_id]
    assert (row["state"], row["operation"], row["stan"], row["rrn"]) == (
        "accepted",
        "spend",
        "000001",
        "632510000001",
    )
    assert (row["network_txn_id"], row["failure"], to_ms(row["accepted_at"])) == ("SN1", None, NOW_MS)
    row = found[refused.request.simulation_id]
    assert (row["state"], row["stan"], row["rrn"], to_ms(row["failed_at"])) == (
        "failed",
        None,
        None,
        NOW_MS + 1,
    )
    assert msgspec.json.decode(row["failure"]) == {"stage": "pre_build", "code": "code", "detail": "detail"}


async def test_decided_is_final(store: PostgresSimulationStore, database_url: str) -> None:
    simulation = Simulation(request=spend(), stan="000001", rrn="632510000001", network_txn_id="SN1")
    key = simulation.request.simulation_id
    authorization_id = new_id(0xA7)
    await store.insert([simulation])
    store.record(StateChange(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    await store.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], to_ms(row["sent_at"])) == ("sent", NOW_MS + 1)
    no_answer = Failure("post_build", "no_answer", "late")
    store.record(StateChange(simulation_id=key, state="failed", failed_ms=NOW_MS + 2, failure=no_answer))
    await store.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], msgspec.json.decode(row["failure"])["stage"]) == ("failed", "post_build")
    store.record(
        StateChange(
            simulation_id=key,
            state="decided",
            decided_ms=NOW_MS + 3,
            response_code="00",
            approval_code="ABC123",
            approved_minor=12_34,
            authorization_id=authorization_id,
        )
    )
    store.record(StateChange(simulation_id=key, state="failed", failed_ms=NOW_MS + 4, failure=no_answer))
    await store.drain()
    store.record(StateChange(simulation_id=key, state="failed", failed_ms=NOW_MS + 5, failure=no_answer))
    await store.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], row["failure"], row["response_code"], row["auth"]) == (
        "decided",
        None,
        "00",
        authorization_id,
    )
    assert [to_ms(row[name]) for name in ("sent_at", "failed_at", "decided_at")] == [
        NOW_MS + 1,
        NOW_MS + 2,
        NOW_MS + 3,
    ]


async def test_immediate_answer_shares_the_statement_of_sent(
    store: PostgresSimulationStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_update", AsyncMock(wraps=store._update))
    simulation = Simulation(request=spend(), stan="000001", rrn="632510000001")
    key = simulation.request.simulation_id
    await store.insert([simulation])
    store.record(StateChange(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    store.record(StateChange(simulation_id=key, state="decided", decided_ms=NOW_MS + 2, response_code="05"))
    await store.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], to_ms(row["sent_at"]), to_ms(row["decided_at"])) == (
        "decided",
        NOW_MS + 1,
        NOW_MS + 2,
    )
    assert store._update.call_count == 1  # type: ignore[attr-defined]


async def test_sent_is_written_without_an_answer(
    store: PostgresSimulationStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(request=spend(), stan="000001", rrn="632510000001")
    key = simulation.request.simulation_id
    await store.insert([simulation])
    recorded = asyncio.Event()
    record = store._update

    async def note(changes: list[StateChange]) -> None:
        await record(changes)
        recorded.set()

    monkeypatch.setattr(store, "_update", note)
    store.record(StateChange(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    async with asyncio.timeout(60):
        await recorded.wait()
    assert (await rows(database_url))[key]["state"] == "sent"


async def test_changes_survive_a_terminated_connection(
    store: PostgresSimulationStore, database_url: str
) -> None:
    simulations = [Simulation(request=spend(), stan="000001", rrn="632510000001") for _ in range(20)]
    await store.insert(simulations)
    store.record(
        StateChange(simulation_id=simulations[0].request.simulation_id, state="sent", sent_ms=NOW_MS)
    )
    await store.drain()
    other = await asyncpg.connect(database_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-updates'"
    )
    await other.close()
    for simulation in simulations:
        store.record(
            StateChange(simulation_id=simulation.request.simulation_id, state="sent", sent_ms=NOW_MS)
        )
    await store.drain()
    assert {row["state"] for row in (await rows(database_url)).values()} == {"sent"}
    assert store.lost_changes == 0


async def test_changes_are_given_up_after_the_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.postgres_simulation_store.RECORD_ATTEMPTS", 2)
    unreachable = NetworkDbConnection("postgresql://nobody@127.0.0.1:1/nothing", "test-db", timeout_ms=200)
    store = PostgresSimulationStore("424242", unreachable, unreachable)
    store.record(StateChange(simulation_id=new_id(), state="sent", sent_ms=NOW_MS))
    await store.drain()
    assert store.lost_changes == 1


def test_stored_request_has_no_secrets() -> None:
    request = spend(
        simulation_id="01900000-0000-7000-8000-0000000001a7",  # a new id could contain the same digits
        cvv2="987",
        auth_value="AAABBB",
        threeds_ref="reference",
        scenario="cvv2_presented",
        mit=True,
    )
    stored = stored_request(request)
    assert "987" not in f"{request} {request!r}"
    assert not any(secret in stored for secret in ("987", "AAABBB", "reference"))
    decoded = msgspec.json.decode(stored, type=SpendRequest)
    assert decoded == msgspec.structs.replace(request, cvv2=None, auth_value=None, threeds_ref=None)


async def test_spends_are_inserted_only_for_active_cards_of_their_tenant(
    store: PostgresSimulationStore, database_url: str
) -> None:
    cards = {state: new_id(0xA7) for state in ("active", "suspended", "live", "foreign", "missing")}
    await add_card(database_url, cards["active"])
    await add_card(database_url, cards["suspended"], state="suspended")
    await add_card(database_url, cards["live"], live=True)
    await add_card(database_url, cards["foreign"], tenant_id=new_id())
    spends = {name: Simulation(request=spend(card_id=card_id)) for name, card_id in cards.items()}
    ids = {name: each.request.simulation_id for name, each in spends.items()}
    # One statement for all, and one for each.
    together = await store.insert_active(list(spends.values()))
    assert together == {ids["active"]: "active", ids["suspended"]: "suspended"}
    assert set(await rows(database_url)) == {ids["active"]}
    for name in ("suspended", "live", "foreign", "missing"):
        states = await store.insert_active([spends[name]])
        assert states == ({ids[name]: "suspended"} if name == "suspended" else {})
    assert set(await rows(database_url)) == {ids["active"]}


@pytest.mark.parametrize("count", [1, 2])
async def test_row_of_an_active_card_equals_that_of_insert(
    store: PostgresSimulationStore, database_url: str, count: int
) -> None:
    await add_card(database_url, CARD_ID)
    failure = Failure("pre_build", "code", "detail")
    accepted = {"stan": "000001", "rrn": "632510000001", "network_txn_id": "SN1"}
    for values in (accepted, {"failed_ms": NOW_MS + 1, "failure": failure}):
        simulations = [Simulation(request=spend(), **values) for _ in range(count + 1)]
        await store.insert(simulations[:1])
        await store.insert_active(simulations[1:])
        found = await rows(database_url)
        first, *others = [found[each.request.simulation_id] for each in simulations]
        names = first.keys() - {"id", "key", "request"}
        for other in others:
            assert {name: other[name] for name in names} == {name: first[name] for name in names}
