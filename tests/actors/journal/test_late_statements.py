"""Statements that run on the server after their caller timed out leave newer ownership alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from actors.journal.contract import BehindError
from engine.ids import shard_of
from tests.support.actors.journal.backends import PostgresBackend, until
from tests.support.actors.journal.cases import FIRST, spend, with_card
from tests.support.engine.build import SHARD

TAKE = "SELECT * FROM take_shards_v2($1, $2, $3)"
RENEW = "SELECT * FROM renew_shards_v2($1, $2, $3)"
RELEASE = "SELECT release_shards_v2($1, $2, $3)"

assert shard_of(FIRST.id) == SHARD


@asynccontextmanager
async def transaction(postgres: PostgresBackend) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A transaction in a session of the test. Its locks are released at the end."""
    session = await asyncpg.connect(postgres.url)
    try:
        async with session.transaction():
            yield session
    finally:
        await session.close()


@asynccontextmanager
async def abandoned(
    postgres: PostgresBackend, statement: str, host: str, epoch: int
) -> AsyncIterator[asyncio.Task[Any]]:
    """A statement on the shard that waits for a lock of the test and has no caller any more."""
    session = await asyncpg.connect(postgres.url)
    running = asyncio.create_task(session.fetch(statement, host, [SHARD], [epoch]))
    await until(lambda: postgres.blocked(statement.partition("$")[0]))
    yield running
    await asyncio.gather(running, return_exceptions=True)
    await session.close()


async def test_late_take_leaves_the_healthy_owner(postgres: PostgresBackend) -> None:
    healthy = await postgres.open("healthy")
    await postgres.open("late")
    async with transaction(postgres) as holder:
        await holder.fetch(TAKE, "healthy", [SHARD], [0])
        late = abandoned(postgres, TAKE, "late", 0)
        running = await late.__aenter__()
    with pytest.raises(asyncpg.PostgresError) as refused:
        await running
    await late.__aexit__(None, None, None)
    assert refused.value.sqlstate == "ST002"
    owner = await with_card(healthy)
    await healthy.commit(owner.decide(spend(1)))


async def test_late_take_that_runs_first_refuses_the_healthy_take(postgres: PostgresBackend) -> None:
    healthy = await postgres.open("healthy")
    await postgres.open("late")
    known = await healthy.load_epochs([SHARD])
    async with transaction(postgres) as holder:
        await holder.execute("SELECT 1 FROM shards WHERE shard = $1 FOR UPDATE", SHARD)
        async with abandoned(postgres, TAKE, "late", 0) as running:
            await holder.execute("COMMIT")
            await running
            await holder.execute("BEGIN")
    with pytest.raises(BehindError):
        await healthy.take([SHARD], known)
    assert await healthy.take([SHARD], await healthy.load_epochs([SHARD])) == {SHARD: 2}


@pytest.mark.parametrize("statement", [RENEW, RELEASE, TAKE])
async def test_late_statement_of_the_owner_leaves_its_newer_epoch(
    postgres: PostgresBackend, statement: str
) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    epoch = owner.epochs[SHARD]
    async with transaction(postgres) as holder:
        await holder.fetch(RENEW, "a", [SHARD], [epoch])
        late = abandoned(postgres, statement, "a", epoch)
        running = await late.__aenter__()
    await asyncio.gather(running, return_exceptions=True)
    await late.__aexit__(None, None, None)
    assert (await postgres.owners())[SHARD] == ("a", epoch + 1)
    owner.epochs = {**owner.epochs, SHARD: epoch + 1}
    await journal.commit(owner.decide(spend(1)))
