"""The host on the real journal: what the simulations say of it is true there too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from actors.clock import SystemClock
from actors.journal.postgres import PostgresJournal
from actors.shards.host import ShardHost
from actors.submission import Submission
from engine.commands import Command
from engine.programmes.programme import Programme
from engine.replies import Done, IdempotencyClaim, NotExecuted, Reply, WireAnswer
from tests.actors.journal.proxy import Proxy
from tests.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    NO_PROGRAMME_CALLS,
    SECOND,
    VAULT,
    approved,
    turns,
)
from tests.engine.build import TENANT, authorize, key, load, read_balance

CLAIM = IdempotencyClaim(key(1) * 2, key(2) * 2)


class Host:
    """A host on a database, alone in telling itself of programmes."""

    def __init__(self, url: str, name: str) -> None:
        self.fenced = 0
        self.name = name
        self.journal = PostgresJournal(url, name, timeout_seconds=2.0)
        self.host = ShardHost(
            self.journal, VAULT, SystemClock(), self._publish, self._fence, NO_PROGRAMME_CALLS
        )

    async def _publish(self, programme: Programme) -> None:
        self.host.programme_changed(programme)

    def _fence(self) -> None:
        self.fenced += 1

    async def ask(self, *commands: Command, claim: IdempotencyClaim | None = None) -> list[Reply]:
        return await self.host.execute([Submission(command, 60_000, claim) for command in commands])


@asynccontextmanager
async def running(url: str, name: str, shards: Any = ALL_SHARDS) -> AsyncIterator[Host]:
    """A started host that owns ``shards``."""
    host = Host(url, name)
    await host.journal.register(name)
    host.host.start()
    await host.host.take(shards)
    try:
        yield host
    finally:
        await host.host.stop()


async def furnish(url: str, host: Host) -> None:
    """A tenant, a programme, two cards, 100.00 on the first."""
    session = await asyncpg.connect(url)
    await session.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await session.close()
    replies = [*await host.ask(ADMIN), *await host.ask(FIRST, SECOND)]
    replies += await host.ask(load(901, card_id=FIRST.id, amount_minor=10_000))
    assert all(isinstance(reply, Done) for reply in replies), replies


def spend(number: int, **parts: Any) -> Command:
    return authorize(number, **{"card_id": FIRST.id} | parts)


async def count(url: str, table: str) -> int:
    session = await asyncpg.connect(url)
    found = await session.fetchval(f"SELECT count(*) FROM {table}")
    await session.close()
    return int(found)


async def test_a_hundred_spends_on_ten_euro_each_are_ten(database_url: str) -> None:
    async with running(database_url, "a") as host:
        await furnish(database_url, host)
        batches = [host.ask(*(spend(10 * turn + place) for place in range(10))) for turn in range(10)]
        replies = [reply for batch in await asyncio.gather(*batches) for reply in batch]
        assert sum(map(approved, replies)) == 10
        assert await count(database_url, "holds") == 10
        assert await count(database_url, "transactions") == 100
    async with running(database_url, "b") as successor:
        (reply,) = await successor.ask(read_balance(1, card_id=FIRST.id))
        assert isinstance(reply, Done)
        assert (reply.body["posted"], reply.body["available"]) == ("100.00", "0.00")
        again = await successor.ask(*(spend(number) for number in range(100)))
        assert [approved(reply) for reply in again] == [approved(reply) for reply in replies]
        assert all(isinstance(reply, WireAnswer) and reply.replayed for reply in again)
        assert await count(database_url, "transactions") == 100


async def test_a_former_owner_ends_without_an_answer(database_url: str) -> None:
    async with running(database_url, "old") as old:
        await furnish(database_url, old)
        async with running(database_url, "new") as new:
            asking = asyncio.create_task(old.ask(spend(1)))
            await turns(lambda: old.fenced)
            assert not asking.done()
            (reply,) = await new.ask(spend(1))
            assert approved(reply)
            assert await count(database_url, "transactions") == 1
            asking.cancel()


async def test_cut_connections_cost_nobody_an_answer(database_url: str) -> None:
    async with Proxy(database_url) as network, running(network.address, "a") as host:
        await furnish(database_url, host)
        numbers = iter(range(1, 1_000))

        async def shop() -> list[Reply]:
            heard = []
            for number in (next(numbers) for _ in range(10)):
                heard += await host.ask(spend(number, amount_minor=50))
                if number % 5 == 0:
                    network.cut()
            return heard

        heard = [reply for shopped in await asyncio.gather(*(shop() for _ in range(8))) for reply in shopped]
        assert all(map(approved, heard))
        assert await count(database_url, "holds") == len(heard) == 80
        (reply,) = await host.ask(read_balance(1, card_id=FIRST.id))
        assert isinstance(reply, Done)
        assert reply.body["held"] == "40.00"


async def test_an_idempotency_key_has_one_effect_whoever_asks(database_url: str) -> None:
    async with running(database_url, "a") as first:
        await furnish(database_url, first)
        copies = await asyncio.gather(
            *(first.ask(load(number, card_id=FIRST.id), claim=CLAIM) for number in range(8))
        )
        bodies = [reply.body for (reply,) in copies if isinstance(reply, Done)]
        assert bodies == [bodies[0]] * 8
        async with running(database_url, "b") as second:
            (again,) = await second.ask(load(50, card_id=FIRST.id), claim=CLAIM)
            altered = await second.ask(
                load(51, card_id=FIRST.id), claim=IdempotencyClaim(CLAIM.key_digest, b"x" * 32)
            )
            assert isinstance(again, Done)
            assert (again.body, again.replayed) == (bodies[0], True)
            assert altered == [NotExecuted("key_reused")]
        assert await count(database_url, "ledger_entries") == 4


async def test_a_value_that_no_column_takes_is_faulty_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(database_url, "a") as host:
        await furnish(database_url, host)
        write: Callable[..., Any] = host.journal.commit

        async def poisoned(rows: Any) -> None:
            for place, row in enumerate(rows.journal):
                if row[3] == key(3):
                    rows.journal[place] = (*row[:2], 2**70, *row[3:])
            await write(rows)

        monkeypatch.setattr(host.journal, "commit", poisoned)
        replies = await host.ask(*(spend(number) for number in range(1, 6)))
        assert replies[2] == NotExecuted("faulty")
        assert [approved(reply) for reply in replies] == [True, True, False, True, True]
