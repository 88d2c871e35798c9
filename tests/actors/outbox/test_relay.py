"""The relay writes a delivery for each endpoint that wants an event, and skips no event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import asyncpg
import pytest

from actors.database import DatabaseUnavailableError
from actors.outbox.announcer import Announcer
from actors.outbox.relay import Relay, relay_lane
from actors.outbox.stream import WakeUp
from engine.limits import RELAY_BUSY_SECONDS, RELAY_IDLE_SECONDS
from tests.actors.outbox.database import World
from tests.actors.outbox.waiting import eventually


class Sink:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.wake_ups: list[WakeUp] = []

    async def add(self, wake_ups: Sequence[WakeUp]) -> None:
        self.wake_ups += wake_ups


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
async def relay(outbox_url: str, sink: Sink) -> AsyncIterator[Relay]:
    lane = relay_lane(outbox_url, "test-relay")
    yield Relay(lane, Announcer(sink), batch_max=3)
    lane.close()


async def drained(relay: Relay) -> int:
    """Relay until there is nothing left; how many events there were."""
    total = 0
    while relayed := await relay.relay_batch():
        total += relayed
    return total


async def test_each_endpoint_gets_what_it_asked_for(world: World, relay: Relay, sink: Sink) -> None:
    acme, other = await world.tenant(), await world.tenant()
    cards = await world.endpoint(acme, "card.created", "card.updated")
    everything = await world.endpoint(acme)
    await world.endpoint(acme, status="disabled")
    await world.endpoint(acme, live=True)
    await world.endpoint(other)
    created = await world.event(acme, "card.created")
    posted = await world.event(acme, "ledger.entry.posted")
    assert await relay.relay_batch() == 2
    assert sorted(await world.deliveries()) == sorted(
        [(created, cards), (created, everything), (posted, everything)]
    )
    await asyncio.sleep(0)
    rows = await world.connection.fetch("SELECT id::text, endpoint_id::text, state, attempts FROM deliveries")
    assert {(wake.delivery_id, wake.endpoint_id) for wake in sink.wake_ups} == {
        (row["id"], row["endpoint_id"]) for row in rows
    }
    assert {(row["state"], row["attempts"]) for row in rows} == {("pending", 0)}


async def test_where_nobody_listens_events_are_passed_over(world: World, relay: Relay) -> None:
    tenant = await world.tenant()
    endpoint = await world.endpoint(tenant, status="disabled")
    await world.events(tenant, 10)
    assert await relay.relay_batch() == 0
    await world.connection.execute("UPDATE webhook_endpoints SET status = 'enabled'")
    heard = await world.event(tenant)
    assert await drained(relay) == 1
    assert await world.deliveries() == [(heard, endpoint)]


async def test_every_batch_goes_on_where_the_last_one_ended(world: World, relay: Relay) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    await world.events(tenant, 10)
    assert [await relay.relay_batch() for _ in range(5)] == [3, 3, 3, 1, 0]
    single = [await world.event(tenant) for _ in range(4)]
    assert await drained(relay) == 4
    deliveries = await world.deliveries()
    assert len(set(deliveries)) == len(deliveries) == 14
    assert {event for event, _ in deliveries} >= set(single)


async def test_a_transaction_that_commits_after_later_ones_is_not_skipped(
    world: World, relay: Relay, outbox_url: str
) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    slow: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(outbox_url)
    transaction = slow.transaction()
    await transaction.start()
    early = await world.event(tenant, on=slow)
    late = [await world.event(tenant) for _ in range(2)]
    assert await relay.relay_batch() == 0
    # What has been committed waits, and the lag says so.
    assert relay.counts.lag_seconds > 0
    assert await world.deliveries() == []
    await transaction.commit()
    await slow.close()
    assert await drained(relay) == 3
    assert {event for event, _ in await world.deliveries()} == {early, *late}
    assert await relay.relay_batch() == 0
    assert relay.counts.lag_seconds == 0


async def test_two_relays_at_once_do_everything_once(world: World, outbox_url: str) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    for _ in range(20):
        await world.events(tenant, 7)
    sinks = [Sink(), Sink()]
    lanes = [relay_lane(outbox_url, f"test-relay-{number}") for number in range(2)]
    relays = [Relay(lane, Announcer(sink), batch_max=10) for lane, sink in zip(lanes, sinks, strict=True)]
    totals = await asyncio.gather(*(drained(relay) for relay in relays))
    assert sum(totals) == 140
    deliveries = await world.deliveries()
    assert len(set(deliveries)) == len(deliveries) == 140
    for lane in lanes:
        lane.close()


async def test_a_relay_that_dies_in_its_batch_has_done_all_or_nothing(
    world: World, relay: Relay, outbox_url: str
) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    await world.events(tenant, 3)
    blocker: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(outbox_url)
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute("LOCK TABLE deliveries IN SHARE MODE")
    dying = asyncio.create_task(relay.relay_batch())
    await eventually(lambda: world.connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    await world.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-relay'"
    )
    with pytest.raises(DatabaseUnavailableError):
        await dying
    await transaction.rollback()
    await blocker.close()
    assert await drained(relay) == 3
    assert len(await world.deliveries()) == 3


async def test_looking_for_nothing_writes_nothing(world: World, relay: Relay) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    await world.event(tenant)
    await drained(relay)
    before = await world.connection.fetchrow("SELECT xmin, ctid FROM relay_progress")
    for _ in range(3):
        await relay.relay_batch()
    assert await world.connection.fetchrow("SELECT xmin, ctid FROM relay_progress") == before


@pytest.mark.parametrize("everything_relayed", [True, False])
async def test_a_database_restored_on_another_server_goes_on(
    world: World, relay: Relay, everything_relayed: bool
) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    relayed = [await world.event(tenant) for _ in range(4)]
    await drained(relay)
    pending = [] if everything_relayed else [await world.event(tenant) for _ in range(4)]
    # The other server had made very many transactions more.
    await world.connection.execute("UPDATE events SET txid = ((txid::text)::bigint + 10000000)::text::xid8")
    await world.connection.execute(
        "UPDATE relay_progress SET txid = ((txid::text)::bigint + 10000000)::text::xid8"
    )
    fresh = await world.event(tenant)
    # Those of a new endpoint would show whether the old ones came again.
    await world.endpoint(tenant)
    assert await relay.adopt() == len(relayed) + len(pending)
    assert await relay.adopt() == 0
    await drained(relay)
    deliveries = await world.deliveries()
    assert len(deliveries) == len(relayed) + 2 * (len(pending) + 1)
    assert {event for event, _ in deliveries} == {*relayed, *pending, fresh}


async def test_ids_of_deliveries_are_ordered_by_time(world: World) -> None:
    rows = await world.connection.fetch(
        "SELECT time_ordered_id(to_timestamp(1790000000.123 + n))::text AS id FROM generate_series(0, 50) n"
    )
    ids = [row["id"] for row in rows]
    assert ids == sorted(ids)
    assert {(id_[14], id_[19] in "89ab") for id_ in ids} == {("7", True)}
    assert int(ids[0].replace("-", "")[:12], 16) == 1_790_000_000_123
    assert len({id_[-12:] for id_ in ids}) == len(ids)


async def test_a_running_relay_survives_its_database(world: World, outbox_url: str, sink: Sink) -> None:
    tenant = await world.tenant()
    await world.endpoint(tenant)
    lane = relay_lane(outbox_url, "test-relay")
    relay = Relay(lane, Announcer(sink))

    def told(expected: int) -> bool:
        return len(sink.wake_ups) >= expected

    relay.start()
    try:
        for expected in (1, 2):
            await world.event(tenant)
            await eventually(partial(told, expected))
            await world.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-relay'"
            )
    finally:
        await relay.stop()
        await relay.stop()
        lane.close()
    assert relay.counts.deliveries == 2


@pytest.mark.parametrize(
    ("relayed", "seconds", "pause"),
    [(3, 0.7, 0.7), (4, 0.2, 0.2), (1, 0.7, RELAY_BUSY_SECONDS), (0, 0.7, RELAY_IDLE_SECONDS)],
    ids=["full", "more than full", "some", "none"],
)
async def test_it_rests_as_long_as_a_full_batch_took(
    relay: Relay, relayed: int, seconds: float, pause: float
) -> None:
    """A backlog leaves the database half of its time for decisions."""
    assert relay._pause_after(relayed, seconds) == pause
