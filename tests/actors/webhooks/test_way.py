"""The whole way of an event: committed, relayed, sent over real HTTPS, with real Redis, through faults."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis
from stripe import WebhookSignature

from actors.clock import SystemClock
from actors.egress.client import Egress
from actors.outbox.announcer import Announcer
from actors.outbox.relay import Relay, relay_lane
from actors.outbox.stream import Stream
from actors.vault import Vault
from actors.webhooks.book import DeliveryBook, book_lane
from actors.webhooks.custody import SecretCustody
from actors.webhooks.dispatcher import Dispatcher
from actors.webhooks.sender import Sender
from engine.instant import to_datetime
from engine.webhooks.schedule import OFFSETS_SECONDS
from engine.webhooks.signature import HEADER
from ops.embedded.local_https import make_authority, server_side
from ops.embedded.redis import EmbeddedRedis
from tests.actors.outbox.database import World
from tests.actors.outbox.waiting import eventually
from tests.actors.webhooks.receivers import Receiver, failing_sometimes, receiving

SECRET, OLD_SECRET = "whsec_bmV3", "whsec_b2xk"


class ShiftedClock(SystemClock):
    """The machine's time, and some more when a test cannot wait."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms

    def instant(self) -> Any:
        """By which deliveries are due."""
        return to_datetime(self.now_ms())


class Life:
    """Of one process, until it is killed."""

    def __init__(self, grave: asyncio.Event) -> None:
        self.over = False
        self.grave = grave
        """Never set: whoever waits here waits for ever, and is remembered."""

    def kill(self) -> None:
        self.over = True


def mortal(real: Any, life: Life) -> Any:
    """``real`` until ``life`` is over; from then on nothing comes through and nothing comes back."""
    return _Mortal(real, life)


class _Mortal:
    def __init__(self, real: Any, life: Life) -> None:
        self._real = real
        self._life = life

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:
            if not self._life.over:
                result = await getattr(self._real, name)(*arguments, **options)
                if not self._life.over:
                    return result
            return await self._life.grave.wait()

        return call


class Way(AsyncExitStack):
    """Relays and dispatchers on one database and one Redis."""

    def __init__(self, world: World, database_url: str, redis: EmbeddedRedis, folder: Path) -> None:
        super().__init__()
        self.world = world
        self.clock = ShiftedClock()
        self.redis = redis
        self.database_url = database_url
        self._authority = make_authority(folder)
        self.tls = server_side(folder)
        self._custody = SecretCustody(Vault((bytes(range(32)),)))
        self._numbers = iter(range(1_000))
        self._grave = asyncio.Event()

    async def endpoint(self, tenant: str, receiver: Receiver) -> str:
        """An endpoint in the middle of a rotation."""
        id_ = await self.world.endpoint(tenant, url=receiver.url)
        await self.world.connection.execute(
            "UPDATE webhook_endpoints SET secret_sealed = $2, previous_secret_sealed = $3,"
            " previous_secret_expires_at = now() + interval '3 days' WHERE id = $1",
            id_,
            self._custody.seal(id_, SECRET),
            self._custody.seal(id_, OLD_SECRET),
        )
        return id_

    def relay(self) -> Callable[[], None]:
        """Start one; it is killed by calling what this returns."""
        life = Life(self._grave)
        lane = relay_lane(self.database_url, f"test-relay-{next(self._numbers)}")
        stream = Stream(self.redis.url)
        relay = Relay(mortal(lane, life), Announcer(mortal(stream, life)))
        self.push_async_callback(stream.close)
        self.callback(lane.close)
        relay.start()
        self.push_async_callback(relay.stop)
        return life.kill

    def dispatcher(self) -> Callable[[], None]:
        """Start one; it is killed by calling what this returns."""
        life = Life(self._grave)
        name = f"dispatcher-{next(self._numbers)}"
        lanes = [book_lane(self.database_url, f"test-{name}-{use}") for use in ("claim", "record", "look")]
        stream = Stream(self.redis.url, name)
        egress = Egress((ip_network("127.0.0.0/8"),), self._authority)
        book = DeliveryBook(lanes[0], lanes[1], lanes[2], name, self.clock.instant)
        sender = Sender(mortal(egress, life), self._custody, self.clock)
        dispatcher = Dispatcher(mortal(book, life), sender, mortal(stream, life), self.clock)
        self.push_async_callback(egress.close)
        self.push_async_callback(stream.close)
        for lane in lanes:
            self.callback(lane.close)
        dispatcher.start()

        async def stop() -> None:
            # The dead have tasks that wait for ever; they end with the loop.
            if not life.over:
                await dispatcher.stop()

        self.push_async_callback(stop)
        return life.kill

    async def due(self) -> int:
        """Deliveries that should be on their way."""
        count: int = await self.world.connection.fetchval(
            "SELECT count(*) FROM deliveries WHERE state = 'pending' AND next_attempt_at <= $1",
            self.clock.instant(),
        )
        return count

    async def settled(self) -> bool:
        """Whether every event is relayed and nothing is due."""
        behind = await self.world.connection.fetchval(
            "SELECT count(*) FROM events e, relay_progress p WHERE e.txid >= p.txid"
        )
        return behind == 0 and await self.due() == 0


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis that may be killed."""
    server = EmbeddedRedis(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def way(world: World, outbox_url: str, own_redis: EmbeddedRedis, tmp_path: Path) -> AsyncIterator[Way]:
    async with Way(world, outbox_url, own_redis, tmp_path) as way:
        yield way


async def publish(database_url: str, tenant: str, count: int, pause_seconds: float) -> None:
    """Events in transactions of very different lengths."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(database_url)
    world = World(connection)
    for number in range(count):
        async with connection.transaction():
            await world.event(tenant, data=f'{{"n": {number} ,"ü": "\\u00fc"}}')
            await asyncio.sleep(pause_seconds * (number % 4))
    await connection.close()


def redis_pid(server: EmbeddedRedis) -> int:
    process = server._process
    assert process is not None
    return process.pid


async def test_nothing_is_lost_whatever_dies(way: Way, world: World) -> None:
    trap = Receiver()
    async with AsyncExitStack() as servers:
        await servers.enter_async_context(receiving(way.tls, trap))
        healthy, flaky, redirecting = (
            Receiver(),
            Receiver(failing_sometimes(0.3, seed=7)),
            Receiver(lambda _request: 307, {"Location": trap.url}),
        )
        for receiver in (healthy, flaky, redirecting):
            await servers.enter_async_context(receiving(way.tls, receiver))
        tenant = await world.tenant()
        endpoints = [await way.endpoint(tenant, receiver) for receiver in (healthy, flaky, redirecting)]
        kill_relay, kill_dispatcher = way.relay(), way.dispatcher()
        publishers = [
            asyncio.create_task(publish(way.database_url, tenant, 40, 0.003 * (1 + number)))
            for number in range(4)
        ]
        await eventually(lambda: len(healthy.taken) > 20)
        async with Redis.from_url(way.redis.url) as redis:
            await redis.flushall()
        kill_dispatcher()
        kill_dispatcher = way.dispatcher()
        taken = len(healthy.taken)
        await eventually(lambda: len(healthy.taken) > taken)
        kill_relay()
        os.kill(redis_pid(way.redis), signal.SIGKILL)
        way.relay()
        await eventually(way.redis.revive)
        kill_dispatcher()
        way.dispatcher()
        way.dispatcher()
        await asyncio.gather(*publishers)
        # The schedule's own time passes quickly.
        for offset in OFFSETS_SECONDS:
            way.clock.shift_ms = offset * 1000 + 1000
            await eventually(way.settled)

    rows = await world.connection.fetch("SELECT id::text FROM events")
    events = {row["id"] for row in rows}
    assert len(events) == 160
    assert set(healthy.taken) == events
    assert set(flaky.taken) == events
    assert trap.requests == []
    for receiver in (healthy, flaky, redirecting):
        assert receiver.bodies().keys() == events
        assert {len(bodies) for bodies in receiver.bodies().values()} == {1}
    states = await world.connection.fetch(
        "SELECT endpoint_id::text, state, max(attempts) AS attempts FROM deliveries GROUP BY 1, 2"
    )
    assert {(row["endpoint_id"], row["state"]) for row in states} == {
        (endpoints[0], "delivered"),
        (endpoints[1], "delivered"),
        (endpoints[2], "failed"),
    }
    assert max(row["attempts"] for row in states) == 6
    for requests in (redirecting.requests, flaky.requests):
        sent = [request.body for request in requests]
        assert max(sent.count(body) for body in set(sent)) <= 6


async def test_without_redis_deliveries_only_take_longer(way: Way, world: World) -> None:
    async with receiving(way.tls, Receiver()) as receiver:
        tenant = await world.tenant()
        await way.endpoint(tenant, receiver)
        way.redis.stop()
        way.relay()
        way.dispatcher()
        for _ in range(2):
            await world.event(tenant)
            count = len(receiver.requests)
            await eventually(lambda count=count: len(receiver.requests) > count)  # type: ignore[misc]


async def test_a_frozen_redis_holds_nobody_up(way: Way, world: World) -> None:
    async with receiving(way.tls, Receiver()) as receiver:
        tenant = await world.tenant()
        await way.endpoint(tenant, receiver)
        way.relay()
        way.dispatcher()
        await world.event(tenant)
        await eventually(lambda: len(receiver.requests) == 1)
        os.kill(redis_pid(way.redis), signal.SIGSTOP)
        try:
            await world.event(tenant)
            await eventually(lambda: len(receiver.requests) == 2)
        finally:
            os.kill(redis_pid(way.redis), signal.SIGCONT)


async def test_somebody_elses_verifier_accepts_a_thousand_deliveries(way: Way, world: World) -> None:
    async with receiving(way.tls, Receiver()) as receiver:
        tenant = await world.tenant()
        await way.endpoint(tenant, receiver)
        await world.events(tenant, 1_000)
        way.relay()
        way.dispatcher()
        await eventually(lambda: len(receiver.taken) == 1_000, seconds=60)
    for request in receiver.requests:
        body, signature = request.body.decode(), request.headers[HEADER.lower()]
        for secret in (SECRET, OLD_SECRET):
            assert WebhookSignature.verify_header(body, signature, secret, tolerance=300)
    assert {request.headers["content-type"] for request in receiver.requests} == {"application/json"}
