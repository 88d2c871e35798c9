"""The stream carries ids, survives restarts and flushes of Redis, and reports failures in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from actors.ids import new_id
from actors.outbox import stream as stream_module
from actors.outbox.stream import GROUP, STREAM, StreamUnavailableError, WakeUp, WakeUpStream


def wake_ups(count: int) -> list[WakeUp]:
    return [WakeUp(new_id(), new_id()) for _ in range(count)]


@pytest.fixture
async def stream(redis_url: str) -> AsyncIterator[WakeUpStream]:
    stream = WakeUpStream(redis_url, "one")
    yield stream
    await stream.close()
    await stream.close()


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as redis:
        yield redis


async def test_readers_share_the_wake_ups(stream: WakeUpStream, redis_url: str) -> None:
    added = wake_ups(6)
    await stream.add(added)
    other = WakeUpStream(redis_url, "two")
    first, second = await stream.read(4), await other.read(4)
    assert [entry.wake_up for entry in first + second] == added
    await stream.acknowledge([entry.entry_id for entry in first])
    await other.close()


async def test_redis_holds_only_ids(stream: WakeUpStream, redis: Redis) -> None:
    (wake_up,) = wake_ups(1)
    await stream.add([wake_up])
    fields = {b"delivery_id": wake_up.delivery_id.encode(), b"endpoint_id": wake_up.endpoint_id.encode()}
    assert [entry[1] for entry in await redis.xrange(STREAM) or ()] == [fields]


async def test_stream_works_after_redis_is_flushed(stream: WakeUpStream, redis: Redis) -> None:
    await stream.add(wake_ups(1))
    assert len(await stream.read(10)) == 1
    await redis.flushall()
    later = wake_ups(2)
    await stream.add(later)
    assert [entry.wake_up for entry in await stream.read(10)] == later


async def test_stream_is_trimmed_to_its_limit(
    stream: WakeUpStream, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UPS_KEPT_MAX", 100)
    for _ in range(5):
        await stream.add(wake_ups(200))
    # Redis cuts whole nodes of the stream, of 100 entries by default.
    assert await redis.xlen(STREAM) <= 200


async def test_unacknowledged_wake_ups_of_a_dead_reader_are_taken_over(
    stream: WakeUpStream, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UP_STUCK_SECONDS", 0.0)
    added = wake_ups(3)
    await stream.add(added)
    dead = WakeUpStream(redis_url, "dead")
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
async def test_foreign_entries_have_no_wake_up_and_can_be_acknowledged(
    stream: WakeUpStream, redis: Redis, fields: dict[Any, Any]
) -> None:
    await redis.xadd(STREAM, fields)
    (entry,) = await stream.read(10)
    assert entry.wake_up is None
    await stream.acknowledge([entry.entry_id])
    assert (await redis.xpending(STREAM, GROUP))["pending"] == 0


async def test_key_of_another_type_makes_the_stream_unavailable(stream: WakeUpStream, redis: Redis) -> None:
    await redis.set(STREAM, "something else")
    with pytest.raises(StreamUnavailableError):
        await stream.add(wake_ups(1))
    with pytest.raises(StreamUnavailableError):
        await stream.read(1)


async def test_read_of_an_empty_stream_ends_in_time(
    stream: WakeUpStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "WAKE_UP_WAIT_SECONDS", 0.05)
    assert await stream.read(1) == []


async def test_unreachable_redis_makes_the_stream_unavailable() -> None:
    stream = WakeUpStream("redis://127.0.0.1:1/0", "one")
    for ask in (stream.add(wake_ups(1)), stream.read(1), stream.take_over(1), stream.acknowledge(["1-1"])):
        with pytest.raises(StreamUnavailableError):
            await ask
    await stream.close()


async def test_hanging_redis_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    hung = asyncio.Event()
    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    monkeypatch.setattr(stream_module, "REDIS_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(stream_module, "WAKE_UP_WAIT_SECONDS", 0.1)
    stream = WakeUpStream(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", "one")
    for ask in (stream.add(wake_ups(1)), stream.read(1)):
        with pytest.raises(StreamUnavailableError):
            await ask
    hung.set()
    await stream.close()
    server.close()
    await server.wait_closed()
