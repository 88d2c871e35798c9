"""The stream carries ids, survives what happens to Redis, and says in time when it cannot answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from actors.ids import new_id
from actors.outbox import stream as stream_module
from actors.outbox.announcer import Announcer
from actors.outbox.stream import GROUP, STREAM, Stream, StreamUnavailableError, WakeUp


def wake_ups(count: int) -> list[WakeUp]:
    return [WakeUp(new_id(), new_id()) for _ in range(count)]


@pytest.fixture
async def stream(redis_url: str) -> AsyncIterator[Stream]:
    stream = Stream(redis_url, "one")
    yield stream
    await stream.close()
    await stream.close()


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as redis:
        yield redis


async def test_readers_share_what_is_added(stream: Stream, redis_url: str) -> None:
    added = wake_ups(6)
    await stream.add(added)
    other = Stream(redis_url, "two")
    first, second = await stream.read(4), await other.read(4)
    assert [entry.wake_up for entry in first + second] == added
    await stream.acknowledge([entry.entry_id for entry in first])
    await other.close()


async def test_nothing_but_ids_is_in_redis(stream: Stream, redis: Redis) -> None:
    (wake_up,) = wake_ups(1)
    await stream.add([wake_up])
    fields = {b"delivery_id": wake_up.delivery_id.encode(), b"endpoint_id": wake_up.endpoint_id.encode()}
    assert [entry[1] for entry in await redis.xrange(STREAM) or ()] == [fields]


async def test_a_flushed_redis_is_a_new_one(stream: Stream, redis: Redis) -> None:
    await stream.add(wake_ups(1))
    assert len(await stream.read(10)) == 1
    await redis.flushall()
    later = wake_ups(2)
    await stream.add(later)
    assert [entry.wake_up for entry in await stream.read(10)] == later


async def test_the_stream_is_cut(stream: Stream, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UPS_KEPT_MAX", 100)
    for _ in range(5):
        await stream.add(wake_ups(200))
    # Redis cuts whole nodes of the stream, of 100 entries by default.
    assert await redis.xlen(STREAM) <= 200


async def test_what_a_dead_reader_has_left_is_taken_over(
    stream: Stream, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UP_STUCK_SECONDS", 0.0)
    added = wake_ups(3)
    await stream.add(added)
    dead = Stream(redis_url, "dead")
    read = await dead.read(10)
    await dead.acknowledge([read[0].entry_id])
    await dead.close()
    taken = await stream.take_over(10)
    assert [entry.wake_up for entry in taken] == added[1:]
    await stream.acknowledge([entry.entry_id for entry in taken])
    assert await stream.take_over(10) == []


@pytest.mark.parametrize(
    "fields",
    [
        {b"delivery_id": b"x", b"endpoint_id": b"y"},
        {b"delivery_id": b"\xff\xfe", b"endpoint_id": b"\x00"},
        {b"other": b"thing"},
        {b"delivery_id": new_id().encode()},
    ],
)
async def test_foreign_entries_are_nobodys(stream: Stream, redis: Redis, fields: dict[Any, Any]) -> None:
    await redis.xadd(STREAM, fields)
    (entry,) = await stream.read(10)
    assert entry.wake_up is None
    await stream.acknowledge([entry.entry_id])
    assert (await redis.xpending(STREAM, GROUP))["pending"] == 0


async def test_a_key_of_another_kind_is_said_to_be_unusable(stream: Stream, redis: Redis) -> None:
    await redis.set(STREAM, "something else")
    with pytest.raises(StreamUnavailableError):
        await stream.add(wake_ups(1))
    with pytest.raises(StreamUnavailableError):
        await stream.read(1)


async def test_reading_nothing_ends_in_time(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UP_WAIT_SECONDS", 0.05)
    assert await stream.read(1) == []


async def test_a_redis_that_is_away_is_said_to_be() -> None:
    stream = Stream("redis://127.0.0.1:1/0", "one")
    for ask in (stream.add(wake_ups(1)), stream.read(1), stream.take_over(1), stream.acknowledge(["1-1"])):
        with pytest.raises(StreamUnavailableError):
            await ask
    await stream.close()


async def test_a_redis_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    hung = asyncio.Event()
    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    monkeypatch.setattr(stream_module, "REDIS_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(stream_module, "WAKE_UP_WAIT_SECONDS", 0.1)
    stream = Stream(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", "one")
    for ask in (stream.add(wake_ups(1)), stream.read(1)):
        with pytest.raises(StreamUnavailableError):
            await ask
    hung.set()
    await stream.close()
    server.close()
    await server.wait_closed()


async def test_the_announcer_drops_what_redis_does_not_take() -> None:
    class Away:
        tried = 0

        async def add(self, _wake_ups: object) -> None:
            self.tried += 1
            raise StreamUnavailableError

    away = Away()
    announcer = Announcer(away)
    announcer.announce(wake_ups(300))
    await announcer.stop()
    assert (announcer.dropped, away.tried) == (300, 2)


async def test_the_announcer_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.outbox.announcer.WAKE_UPS_WAITING_MAX", 500)
    monkeypatch.setattr("actors.outbox.announcer.REDIS_TIMEOUT_SECONDS", 0.05)
    released = asyncio.Event()

    class Hanging:
        taken = 0

        async def add(self, wake_ups: object) -> None:
            await released.wait()
            assert isinstance(wake_ups, list)
            self.taken += len(wake_ups)

    hanging = Hanging()
    announcer = Announcer(hanging)
    announcer.announce(wake_ups(1_000))
    assert announcer.dropped == 512
    await announcer.stop()
    assert hanging.taken == 0
    released.set()
    await announcer.stop()
    assert hanging.taken == 488
    announcer.announce(wake_ups(256))
    assert announcer.dropped == 512
    await announcer.stop()
