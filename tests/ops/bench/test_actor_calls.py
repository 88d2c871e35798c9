"""The rival made of actors decides as the engine does and writes the same rows, one commit for each decision.
Ray itself is left out: the actor is a plain object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from actors.journal.postgres import PostgresJournal
from engine.limits import SHARD_COUNT
from engine.replies import NotExecuted, Reply, WireAnswer
from ops.bench.actor_calls import Owner
from ops.bench.load import spends
from tests.ops.bench.twin import CASES, SALE, compare, insert_twin


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Owner]:
    journals = [PostgresJournal(database_url, "bench-owner-0") for _ in range(3)]
    made = Owner("bench-owner-0", list(range(SHARD_COUNT)), list(journals))
    await made.start()
    yield made
    await made.stop()


async def test_every_case_is_decided_and_written_as_the_engine_does(
    owner: Owner, database: asyncpg.Connection[Any]
) -> None:
    twins = {name: await insert_twin(database, **about) for name, (about, _) in CASES.items()}
    decided = 0
    for name, (_, wanted) in CASES.items():
        for changes in wanted:
            await owner.authorize(next(spends([twins[name].card.id], SALE | changes)))
            decided += 1
    commits = await database.fetchval("SELECT count(DISTINCT xmin::text) FROM journal")
    assert commits == decided
    for twin in twins.values():
        await compare(database, twin)


async def test_a_cards_calls_take_turns(owner: Owner, database: asyncpg.Connection[Any]) -> None:
    twin = await insert_twin(database)
    commands = spends([twin.card.id], SALE)
    replies = await asyncio.gather(*(owner.authorize(next(commands)) for _ in range(16)))
    codes = sorted(reply.response_code for reply in replies if isinstance(reply, WireAnswer))
    assert codes == ["00"] * 10 + ["51"] * 6
    await compare(database, twin)


async def test_an_unknown_card_is_nobodys(owner: Owner) -> None:
    assert await owner.authorize(next(spends([new_id()], SALE))) == NotExecuted("not_owner")


async def test_after_a_failure_the_card_is_read_again(
    owner: Owner, database: asyncpg.Connection[Any]
) -> None:
    twin = await insert_twin(database)
    command = next(spends([twin.card.id], SALE))
    await owner.authorize(command)
    with pytest.raises(Exception, match="journal_command_key"):
        await owner.authorize(command)
    travelled = await owner.answer(msgspec.msgpack.encode(next(spends([twin.card.id], SALE))))
    reply = msgspec.msgpack.decode(travelled, type=Reply)
    assert reply.response_code == "00"
    await compare(database, twin)
    assert await database.fetchval("SELECT count(*) FROM journal") == 2
