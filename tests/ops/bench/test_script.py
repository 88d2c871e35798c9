"""The Redis rival decides exactly as the engine does, byte for byte in everything it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import msgspec
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from actors.ids import new_id
from engine.commands import Authorize
from engine.replies import NotExecuted, WireAnswer
from ops.bench.load import spends
from ops.bench.script import Script, SyncedRedis, fill
from tests.support.ops.bench.twin import CASES, SALE, Twin, insert_twin

IN_UTC = {name: case for name, case in CASES.items() if "timezone" not in case[0].get("programme", {})}


@pytest.fixture(scope="module")
def synced_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = SyncedRedis(tmp_path_factory.mktemp("rival"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def client(synced_redis: str) -> AsyncIterator[Redis]:
    made = Redis.from_url(synced_redis, decode_responses=True)
    await made.flushall()
    yield made
    await made.aclose()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


async def stream(client: Redis, name: str) -> list[dict[str, str]]:
    """All entries of a stream."""
    entries: Any = await client.xrange(name)
    return [fields for _, fields in entries]


async def compare(client: Redis, twin: Twin) -> None:
    """Let the twin decide the same commands at the same instants."""
    journal = [row for row in await stream(client, "journal") if row["actor_id"] == twin.card.id]
    for row in journal:
        twin.decide(msgspec.json.decode(row["command"], type=Authorize), int(row["recorded_ms"]))
    assert [int(row["seq"]) for row in journal] == [row[1] for row in twin.rows.journal]
    for row, mine in zip(journal, twin.rows.journal, strict=True):
        for name, expected in zip(("command", "inputs", "decision", "reply"), mine[6:10], strict=True):
            assert row[name] == expected
    events = [row for row in await stream(client, "events") if row["tenant_id"] == twin.card.tenant_id]
    assert [(row["id"], row["type"], row["data"]) for row in events] == [
        (row[0], row[3], row[5]) for row in twin.rows.events
    ]
    for hold in twin.rows.holds:
        found = await client.hgetall(f"hold:{hold[0]}")
        assert (found["account_id"], int(found["amount_minor"])) == (hold[1], hold[4])
        assert await client.zscore("holds_due", hold[0]) == int(found["expires_ms"]) == hold[6]
    for opened in twin.rows.transactions:
        found = await client.hgetall(f"transaction:{opened[0]}")
        assert (found["status"], found["decline_reason"] or None) == (opened[8], opened[16])
    card = await client.hgetall(f"card:{twin.card.id}")
    usage = (card["day"], *(int(card[name]) for name in ("seq", "day_count", "day_amount_minor")))
    assert usage == (twin.card.day, twin.card.seq, twin.card.day_count, twin.card.day_amount_minor)
    assert int(card["held_minor"]) == twin.account.held_minor
    assert int(card["version"]) == twin.account.version


async def test_every_case_is_decided_and_written_as_the_engine_does(
    database: asyncpg.Connection[Any], database_url: str, synced_redis: str, client: Redis
) -> None:
    twins = {name: await insert_twin(database, **about) for name, (about, _) in IN_UTC.items()}
    await fill(database_url, synced_redis)
    rival = Script(synced_redis, 1)
    await rival.start()
    before = await rival.log_bytes()
    waiting = [
        rival.submit(next(spends([twins[name].card.id], SALE | changes)))
        for name, (_, wanted) in IN_UTC.items()
        for changes in wanted
    ]
    replies = await asyncio.gather(*waiting)
    assert rival.round_trips == 1
    assert await rival.log_bytes() > before
    held_minor = await rival.held_minor()
    await rival.stop()
    for twin in twins.values():
        await compare(client, twin)
    assert held_minor == sum(twin.account.held_minor for twin in twins.values())
    codes = sorted(reply.response_code for reply in replies if isinstance(reply, WireAnswer))
    expected = [msgspec.json.decode(row[9]) for twin in twins.values() for row in twin.rows.journal]
    assert codes == sorted(row["response_code"] for row in expected)


async def test_an_answered_command_is_on_disk(client: Redis) -> None:
    settings = await client.config_get("append*")
    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "always")


async def test_unknown_cards_and_repeats_change_nothing(
    database: asyncpg.Connection[Any], database_url: str, synced_redis: str, client: Redis
) -> None:
    twin = await insert_twin(database)
    await fill(database_url, synced_redis)
    rival = Script(synced_redis, 2)
    await rival.start()
    assert await rival.submit(next(spends([new_id()], SALE))) == NotExecuted("not_owner")
    command = next(spends([twin.card.id], SALE))
    await rival.submit(command)
    with pytest.raises(ResponseError, match="DUPLICATE"):
        await rival.submit(command)
    await rival.stop()
    assert await client.xlen("journal") == 1
