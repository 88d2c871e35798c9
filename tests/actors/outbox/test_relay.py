"""The relay writes a delivery for each endpoint subscribed to an event, and skips no event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import asyncpg
import pytest

from actors.database import DatabaseUnavailableError
from actors.outbox.announcer import Announcer
from actors.outbox.relay import Relay, relay_connection
from actors.outbox.stream import WakeUp
from engine.limits import RELAY_BUSY_SECONDS, RELAY_IDLE_SECONDS
from tests.support.actors.outbox.database import EventDatabase
from tests.support.actors.outbox.waiting import eventually


class Sink:
    """Records wake-ups."""

    def __init__(self) -> None:
        self.wake_ups: list[WakeUp] = []

    async def add(self, wake_ups: Sequence[WakeUp]) -> None:
        self.wake_ups += wake_ups


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
async def relay(outbox_url: str, sink: Sink) -> AsyncIterator[Relay]:
    connection = relay_connection(outbox_url, "test-relay")
    yield Relay(connection, Announcer(sink), batch_max=3)
    connection.close()


async def drained(relay: Relay) -> int:
    """Relay all events; returns their number."""
    total = 0
    while relayed := await relay.relay_batch():
        total += relayed
    return total


async def test_each_endpoint_gets_the_event_types_it_subscribed_to(
    database: EventDatabase, relay: Relay, sink: Sink
) -> None:
    acme, other = await database.tenant(), await database.tenant()
    cards = await database.endpoint(acme, "card.created", "card.updated")
    everything = await database.endpoint(acme)
    await database.endpoint(acme, status="disabled")
    await database.endpoint(acme, live=True)
    await database.endpoint(other)
    created = await database.event(acme, "card.created")
    posted = await database.event(acme, "ledger.entry.posted")
    assert await relay.relay_batch() == 2
    assert sorted(await database.deliveries()) == sorted(
        [(created, cards), (created, everything), (posted, everything)]
    )
    await asyncio.sleep(0)
    rows = await database.connection.fetch(
        "SELECT id::text, endpoint_id::text, state, attempts FROM deliveries"
    )
    assert {(wake.delivery_id, wake.endpoint_id) for wake in sink.wake_ups} == {
        (row["id"], row["endpoint_id"]) for row in rows
    }
    assert {(row["state"], row["attempts"]) for row in rows} == {("pending", 0)}


async def test_events_without_subscribers_get_no_deliveries(database: EventDatabase, relay: Relay) -> None:
    tenant = await database.tenant()
    endpoint = await database.endpoint(tenant, status="disabled")
    await database.events(tenant, 10)
    assert await relay.relay_batch() == 0
    await database.connection.execute("UPDATE webhook_endpoints SET status = 'enabled'")
    subscribed = await database.event(tenant)
    assert await drained(relay) == 1
    assert await database.deliveries() == [(subscribed, endpoint)]


async def test_each_batch_continues_after_the_last_one(database: EventDatabase, relay: Relay) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    await database.events(tenant, 10)
    assert [await relay.relay_batch() for _ in range(5)] == [3, 3, 3, 1, 0]
    single = [await database.event(tenant) for _ in range(4)]
    assert await drained(relay) == 4
    deliveries = await database.deliveries()
    assert len(set(deliveries)) == len(deliveries) == 14
    assert {event for event, _ in deliveries} >= set(single)


async def test_event_of_a_slow_transaction_is_not_skipped(
    database: EventDatabase, relay: Relay, outbox_url: str
) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    slow: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(outbox_url)
    transaction = slow.transaction()
    await transaction.start()
    early = await database.event(tenant, on=slow)
    late = [await database.event(tenant) for _ in range(2)]
    assert await relay.relay_batch() == 0
    # The committed events wait, and the lag shows it.
    assert relay.counts.lag_seconds > 0
    assert await database.deliveries() == []
    await transaction.commit()
    await slow.close()
    assert await drained(relay) == 3
    assert {event for event, _ in await database.deliveries()} == {early, *late}
    assert await relay.relay_batch() == 0
    assert relay.counts.lag_seconds == 0


async def test_two_concurrent_relays_write_each_delivery_once(
    database: EventDatabase, outbox_url: str
) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    for _ in range(20):
        await database.events(tenant, 7)
    sinks = [Sink(), Sink()]
    connections = [relay_connection(outbox_url, f"test-relay-{number}") for number in range(2)]
    relays = [
        Relay(connection, Announcer(sink), batch_max=10)
        for connection, sink in zip(connections, sinks, strict=True)
    ]
    totals = await asyncio.gather(*(drained(relay) for relay in relays))
    assert sum(totals) == 140
    deliveries = await database.deliveries()
    assert len(set(deliveries)) == len(deliveries) == 140
    for connection in connections:
        connection.close()


async def test_connection_lost_in_a_batch_leaves_no_partial_batch(
    database: EventDatabase, relay: Relay, outbox_url: str
) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    await database.events(tenant, 3)
    blocker: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(outbox_url)
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute("LOCK TABLE deliveries IN SHARE MODE")
    dying = asyncio.create_task(relay.relay_batch())
    await eventually(lambda: database.connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    await database.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-relay'"
    )
    with pytest.raises(DatabaseUnavailableError):
        await dying
    await transaction.rollback()
    await blocker.close()
    assert await drained(relay) == 3
    assert len(await database.deliveries()) == 3


async def test_empty_batch_does_not_write_the_position(database: EventDatabase, relay: Relay) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    await database.event(tenant)
    await drained(relay)
    before = await database.connection.fetchrow("SELECT xmin, ctid FROM relay_progress")
    for _ in range(3):
        await relay.relay_batch()
    assert await database.connection.fetchrow("SELECT xmin, ctid FROM relay_progress") == before


@pytest.mark.parametrize("everything_relayed", [True, False])
async def test_relay_continues_after_a_restore_on_another_server(
    database: EventDatabase, relay: Relay, everything_relayed: bool
) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    relayed = [await database.event(tenant) for _ in range(4)]
    await drained(relay)
    pending = [] if everything_relayed else [await database.event(tenant) for _ in range(4)]
    # The other server's transaction ids are far ahead of this one's.
    await database.connection.execute(
        "UPDATE event_rows SET txid = ((txid::text)::bigint + 10000000)::text::xid8"
    )
    await database.connection.execute(
        "UPDATE relay_progress SET txid = ((txid::text)::bigint + 10000000)::text::xid8"
    )
    fresh = await database.event(tenant)
    # Deliveries to a new endpoint would show events that are relayed again.
    await database.endpoint(tenant)
    assert await relay.adopt() == len(relayed) + len(pending)
    assert await relay.adopt() == 0
    await drained(relay)
    deliveries = await database.deliveries()
    assert len(deliveries) == len(relayed) + 2 * (len(pending) + 1)
    assert {event for event, _ in deliveries} == {*relayed, *pending, fresh}


@pytest.mark.parametrize("relayed", [1, 2, 3])
async def test_two_events_of_one_row_are_relayed_once_each(
    database: EventDatabase, outbox_url: str, sink: Sink, relayed: int
) -> None:
    """The batch ends before, between or after them, and the database is restored on another server there."""
    tenant = await database.tenant()
    endpoints = [await database.endpoint(tenant, type_) for type_ in ("authorization.decided", "*")]
    async with database.connection.transaction():
        for type_ in ("P", "P", "card.created"):
            await database.event(tenant, type_, data="{}")
    connection = relay_connection(outbox_url, "test-relay")
    relay = Relay(connection, Announcer(sink), batch_max=relayed)
    assert await relay.relay_batch() == relayed
    for table in ("event_rows", "relay_progress"):
        await database.connection.execute(
            f"UPDATE {table} SET txid = ((txid::text)::bigint + 10000000)::text::xid8"
        )
    await relay.adopt()
    await drained(relay)
    connection.close()
    deliveries = await database.deliveries()
    assert len(deliveries) == len(set(deliveries)) == 2 + 5
    assert len([event for event, endpoint in deliveries if endpoint == endpoints[0]]) == 2
    shown = await database.connection.fetch("SELECT id::text FROM events")
    assert {event for event, _ in deliveries} == {row["id"] for row in shown}


async def test_time_ordered_ids_are_sorted_uuidv7(database: EventDatabase) -> None:
    rows = await database.connection.fetch(
        "SELECT time_ordered_id(to_timestamp(1790000000.123 + n))::text AS id FROM generate_series(0, 50) n"
    )
    ids = [row["id"] for row in rows]
    assert ids == sorted(ids)
    assert {(id_[14], id_[19] in "89ab") for id_ in ids} == {("7", True)}
    assert int(ids[0].replace("-", "")[:12], 16) == 1_790_000_000_123
    assert len({id_[-12:] for id_ in ids}) == len(ids)


async def test_running_relay_reconnects_after_its_connection_is_lost(
    database: EventDatabase, outbox_url: str, sink: Sink
) -> None:
    tenant = await database.tenant()
    await database.endpoint(tenant)
    connection = relay_connection(outbox_url, "test-relay")
    relay = Relay(connection, Announcer(sink))

    def announced(expected: int) -> bool:
        return len(sink.wake_ups) >= expected

    relay.start()
    try:
        for expected in (1, 2):
            await database.event(tenant)
            await eventually(partial(announced, expected))
            await database.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-relay'"
            )
    finally:
        await relay.stop()
        await relay.stop()
        connection.close()
    assert relay.counts.deliveries == 2


@pytest.mark.parametrize(
    ("relayed", "seconds", "pause"),
    [(3, 0.7, 0.7), (4, 0.2, 0.2), (1, 0.7, RELAY_BUSY_SECONDS), (0, 0.7, RELAY_IDLE_SECONDS)],
    ids=["full", "more than full", "some", "none"],
)
async def test_pause_depends_on_how_full_the_batch_was(
    relay: Relay, relayed: int, seconds: float, pause: float
) -> None:
    """During a backlog, decisions keep half of the database's time."""
    assert relay._pause_after(relayed, seconds) == pause
