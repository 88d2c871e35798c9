"""Events from commit to receiver: real relay, Redis, dispatchers and HTTPS, while processes are killed."""

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
from actors.outbox.relay import Relay, relay_connection
from actors.outbox.stream import WakeUpStream
from actors.vault import Vault
from actors.webhooks.delivery_store import DeliveryStore, delivery_connection
from actors.webhooks.dispatcher import Dispatcher
from actors.webhooks.sender import Sender
from actors.webhooks.signing_secrets import SigningSecrets
from engine.instant import to_datetime
from engine.webhooks.schedule import OFFSETS_SECONDS
from engine.webhooks.signature import HEADER
from ops.embedded.local_https import make_authority, server_side
from ops.embedded.redis import EmbeddedRedis
from tests.support.actors.outbox.database import EventDatabase
from tests.support.actors.outbox.waiting import eventually
from tests.support.actors.webhooks.receivers import Receiver, failing_sometimes, receiving

SECRET, OLD_SECRET = "whsec_bmV3", "whsec_b2xk"


class ShiftedClock(SystemClock):
    """The machine's time plus a shift that tests set."""

    def __init__(self) -> None:
        self.shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms

    def instant(self) -> Any:
        """The instant by which deliveries are due."""
        return to_datetime(self.now_ms())


class KillSwitch:
    """Simulates the death of one process: after ``kill``, its calls never return."""

    def __init__(self, never: asyncio.Event) -> None:
        self.killed = False
        self.never = never
        """Never set; calls of killed processes wait for it."""

    def kill(self) -> None:
        self.killed = True


def killable(real: Any, switch: KillSwitch) -> Any:
    """A proxy of ``real``. After ``switch.kill()`` it passes on no calls and returns no results."""
    return _Killable(real, switch)


class _Killable:
    def __init__(self, real: Any, switch: KillSwitch) -> None:
        self._real = real
        self._switch = switch

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:
            if not self._switch.killed:
                result = await getattr(self._real, name)(*arguments, **options)
                if not self._switch.killed:
                    return result
            return await self._switch.never.wait()

        return call


class Pipeline(AsyncExitStack):
    """Relays and dispatchers on one database and one Redis."""

    def __init__(
        self, database: EventDatabase, database_url: str, redis: EmbeddedRedis, folder: Path
    ) -> None:
        super().__init__()
        self.database = database
        self.clock = ShiftedClock()
        self.redis = redis
        self.database_url = database_url
        self._authority = make_authority(folder)
        self.tls = server_side(folder)
        self._secrets = SigningSecrets(Vault((bytes(range(32)),)))
        self._numbers = iter(range(1_000))
        self._never = asyncio.Event()

    async def endpoint(self, tenant: str, receiver: Receiver) -> str:
        """An endpoint during the rotation of its secret."""
        id_ = await self.database.endpoint(tenant, url=receiver.url)
        await self.database.connection.execute(
            "UPDATE webhook_endpoints SET secret_sealed = $2, previous_secret_sealed = $3,"
            " previous_secret_expires_at = now() + interval '3 days' WHERE id = $1",
            id_,
            self._secrets.seal(id_, SECRET),
            self._secrets.seal(id_, OLD_SECRET),
        )
        return id_

    def relay(self) -> Callable[[], None]:
        """Start a relay; returns the function that kills it."""
        switch = KillSwitch(self._never)
        connection = relay_connection(self.database_url, f"test-relay-{next(self._numbers)}")
        stream = WakeUpStream(self.redis.url)
        relay = Relay(killable(connection, switch), Announcer(killable(stream, switch)))
        self.push_async_callback(stream.close)
        self.callback(connection.close)
        relay.start()
        self.push_async_callback(relay.stop)
        return switch.kill

    def dispatcher(self) -> Callable[[], None]:
        """Start a dispatcher; returns the function that kills it."""
        switch = KillSwitch(self._never)
        name = f"dispatcher-{next(self._numbers)}"
        connections = [
            delivery_connection(self.database_url, f"test-{name}-{use}")
            for use in ("claim", "record", "look")
        ]
        stream = WakeUpStream(self.redis.url, name)
        egress = Egress((ip_network("127.0.0.0/8"),), self._authority)
        store = DeliveryStore(connections[0], connections[1], connections[2], name, self.clock.instant)
        sender = Sender(killable(egress, switch), self._secrets, self.clock)
        dispatcher = Dispatcher(killable(store, switch), sender, killable(stream, switch), self.clock)
        self.push_async_callback(egress.close)
        self.push_async_callback(stream.close)
        for connection in connections:
            self.callback(connection.close)
        dispatcher.start()

        async def stop() -> None:
            # The tasks of a killed dispatcher never return; they end with the loop.
            if not switch.killed:
                await dispatcher.stop()

        self.push_async_callback(stop)
        return switch.kill

    async def due(self) -> int:
        """Number of due deliveries."""
        count: int = await self.database.connection.fetchval(
            "SELECT count(*) FROM deliveries WHERE state = 'pending' AND next_attempt_at <= $1",
            self.clock.instant(),
        )
        return count

    async def settled(self) -> bool:
        """Whether every event is relayed and no delivery is due."""
        behind = await self.database.connection.fetchval(
            "SELECT count(*) FROM events e, relay_progress p WHERE e.txid >= p.txid"
        )
        return behind == 0 and await self.due() == 0

    async def finished(self) -> bool:
        """Whether no delivery is pending. One whose attempt is open is pending and not due."""
        pending = await self.database.connection.fetchval(
            "SELECT count(*) FROM deliveries WHERE state = 'pending'"
        )
        return bool(pending == 0)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis server that the test may kill."""
    server = EmbeddedRedis(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def pipeline(
    database: EventDatabase, outbox_url: str, own_redis: EmbeddedRedis, tmp_path: Path
) -> AsyncIterator[Pipeline]:
    async with Pipeline(database, outbox_url, own_redis, tmp_path) as pipeline:
        yield pipeline


async def publish(database_url: str, tenant: str, count: int, pause_seconds: float) -> None:
    """Commit ``count`` events in transactions of very different durations."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(database_url)
    database = EventDatabase(connection)
    for number in range(count):
        async with connection.transaction():
            await database.event(tenant, data=f'{{"n": {number} ,"ü": "\\u00fc"}}')
            await asyncio.sleep(pause_seconds * (number % 4))
    await connection.close()


def redis_pid(server: EmbeddedRedis) -> int:
    process = server._process
    assert process is not None
    return process.pid


async def test_every_event_is_delivered_when_relay_dispatcher_and_redis_are_killed(
    pipeline: Pipeline, database: EventDatabase
) -> None:
    trap = Receiver()
    async with AsyncExitStack() as servers:
        await servers.enter_async_context(receiving(pipeline.tls, trap))
        healthy, flaky, redirecting = (
            Receiver(),
            Receiver(failing_sometimes(0.3, seed=7)),
            Receiver(lambda _request: 307, {"Location": trap.url}),
        )
        for receiver in (healthy, flaky, redirecting):
            await servers.enter_async_context(receiving(pipeline.tls, receiver))
        tenant = await database.tenant()
        endpoints = [await pipeline.endpoint(tenant, receiver) for receiver in (healthy, flaky, redirecting)]
        kill_relay, kill_dispatcher = pipeline.relay(), pipeline.dispatcher()
        publishers = [
            asyncio.create_task(publish(pipeline.database_url, tenant, 40, 0.003 * (1 + number)))
            for number in range(4)
        ]
        await eventually(lambda: len(healthy.taken) > 20)
        async with Redis.from_url(pipeline.redis.url) as redis:
            await redis.flushall()
        kill_dispatcher()
        kill_dispatcher = pipeline.dispatcher()
        taken = len(healthy.taken)
        await eventually(lambda: len(healthy.taken) > taken)
        kill_relay()
        os.kill(redis_pid(pipeline.redis), signal.SIGKILL)
        pipeline.relay()
        await eventually(pipeline.redis.revive)
        kill_dispatcher()
        pipeline.dispatcher()
        pipeline.dispatcher()
        await asyncio.gather(*publishers)
        # Skip the waits of the schedule.
        for offset in OFFSETS_SECONDS:
            pipeline.clock.shift_ms = offset * 1000 + 1000
            await eventually(pipeline.settled)
        await eventually(pipeline.finished)

    rows = await database.connection.fetch("SELECT id::text FROM events")
    events = {row["id"] for row in rows}
    assert len(events) == 160
    assert set(healthy.taken) == events
    assert set(flaky.taken) == events
    assert trap.requests == []
    for receiver in (healthy, flaky, redirecting):
        assert receiver.bodies().keys() == events
        assert {len(bodies) for bodies in receiver.bodies().values()} == {1}
    states = await database.connection.fetch(
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


async def test_deliveries_arrive_without_redis(pipeline: Pipeline, database: EventDatabase) -> None:
    async with receiving(pipeline.tls, Receiver()) as receiver:
        tenant = await database.tenant()
        await pipeline.endpoint(tenant, receiver)
        pipeline.redis.stop()
        pipeline.relay()
        pipeline.dispatcher()
        for _ in range(2):
            await database.event(tenant)
            count = len(receiver.requests)
            await eventually(lambda count=count: len(receiver.requests) > count)  # type: ignore[misc]


async def test_frozen_redis_does_not_stop_deliveries(pipeline: Pipeline, database: EventDatabase) -> None:
    async with receiving(pipeline.tls, Receiver()) as receiver:
        tenant = await database.tenant()
        await pipeline.endpoint(tenant, receiver)
        pipeline.relay()
        pipeline.dispatcher()
        await database.event(tenant)
        await eventually(lambda: len(receiver.requests) == 1)
        os.kill(redis_pid(pipeline.redis), signal.SIGSTOP)
        try:
            await database.event(tenant)
            await eventually(lambda: len(receiver.requests) == 2)
        finally:
            os.kill(redis_pid(pipeline.redis), signal.SIGCONT)


async def test_independent_verifier_accepts_a_thousand_deliveries(
    pipeline: Pipeline, database: EventDatabase
) -> None:
    async with receiving(pipeline.tls, Receiver()) as receiver:
        tenant = await database.tenant()
        await pipeline.endpoint(tenant, receiver)
        await database.events(tenant, 1_000)
        pipeline.relay()
        pipeline.dispatcher()
        await eventually(lambda: len(receiver.taken) == 1_000, seconds=60)
    for request in receiver.requests:
        body, signature = request.body.decode(), request.headers[HEADER.lower()]
        for secret in (SECRET, OLD_SECRET):
            assert WebhookSignature.verify_header(body, signature, secret, tolerance=300)
    assert {request.headers["content-type"] for request in receiver.requests} == {"application/json"}
