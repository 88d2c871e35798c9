"""Hosts on the PostgreSQL journal, for promises that the simulations check on the in-memory journal."""

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
from tests.support.actors.journal.proxy import Proxy
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    NO_PROGRAMME_CALLS,
    SECOND,
    VAULT,
    approved,
    turns,
)
from tests.support.engine.build import TENANT, authorize, key, load, read_balance
from tests.support.engine.rules import change_rule, condition, create_rule, velocity

CLAIM = IdempotencyClaim(key(1) * 2, key(2) * 2)


class Host:
    """A host on a database; it announces programmes to itself only."""

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

    async def execute(self, *commands: Command, claim: IdempotencyClaim | None = None) -> list[Reply]:
        return await self.host.execute([Submission(command, 60_000, claim) for command in commands])


@asynccontextmanager
async def running(url: str, name: str, shards: Any = ALL_SHARDS) -> AsyncIterator[Host]:
    """Start a host that owns ``shards``."""
    host = Host(url, name)
    await host.journal.register(name)
    host.host.start()
    await host.host.take(shards)
    try:
        yield host
    finally:
        await host.host.stop()


async def furnish(url: str, host: Host) -> None:
    """Create a tenant, a programme and two cards, and load 100.00 on the first."""
    session = await asyncpg.connect(url)
    await session.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await session.close()
    replies = [*await host.execute(ADMIN), *await host.execute(FIRST, SECOND)]
    replies += await host.execute(load(901, card_id=FIRST.id, amount_minor=10_000))
    assert all(isinstance(reply, Done) for reply in replies), replies


def spend(number: int, **parts: Any) -> Command:
    return authorize(number, **{"card_id": FIRST.id} | parts)


async def count(url: str, table: str) -> int:
    session = await asyncpg.connect(url)
    found = await session.fetchval(f"SELECT count(*) FROM {table}")
    await session.close()
    return int(found)


async def test_concurrent_spends_are_approved_up_to_the_balance(database_url: str) -> None:
    async with running(database_url, "a") as host:
        await furnish(database_url, host)
        batches = [host.execute(*(spend(10 * turn + place) for place in range(10))) for turn in range(10)]
        replies = [reply for batch in await asyncio.gather(*batches) for reply in batch]
        assert sum(map(approved, replies)) == 10
        assert await count(database_url, "holds") == 10
        assert await count(database_url, "transactions") == 100
    async with running(database_url, "b") as successor:
        (reply,) = await successor.execute(read_balance(1, card_id=FIRST.id))
        assert isinstance(reply, Done)
        assert (reply.body["posted"], reply.body["available"]) == ("100.00", "0.00")
        again = await successor.execute(*(spend(number) for number in range(100)))
        assert [approved(reply) for reply in again] == [approved(reply) for reply in replies]
        assert all(isinstance(reply, WireAnswer) and reply.replayed for reply in again)
        assert await count(database_url, "transactions") == 100


async def test_at_most_three_in_ten_minutes_approves_exactly_three_of_64(database_url: str) -> None:
    """Half of the spends meet a card whose rule is in force, half a successor that reads its past."""
    at_most_three = velocity("count", "PT10M", "gt", 3)
    async with running(database_url, "a") as host:
        await furnish(database_url, host)
        (created,) = await host.execute(create_rule(1, at_most_three, programme_id=ADMIN.id))
        assert isinstance(created, Done)
        batches = [host.execute(*(spend(8 * turn + place) for place in range(8))) for turn in range(8)]
        replies = [reply for batch in await asyncio.gather(*batches) for reply in batch]
        assert sum(map(approved, replies)) == 3
        shadow = create_rule(2, condition("amount", "gte", 1), programme_id=ADMIN.id, state="shadow")
        await host.execute(shadow)
    async with running(database_url, "b") as successor:
        replies = await successor.execute(*(spend(number) for number in range(100, 110)))
        assert [reply.reason for reply in replies if isinstance(reply, WireAnswer)] == ["rule_declined"] * 10
        await successor.execute(change_rule(1, programme_id=ADMIN.id, state="retired"))
        (reply,) = await successor.execute(spend(120))
        assert approved(reply)
    assert await count(database_url, "rule_matches WHERE NOT shadow") == 71
    assert await count(database_url, "rule_matches WHERE shadow") == 11
    assert await count(database_url, "authorization_rules WHERE state = 'retired'") == 1
    assert await count(database_url, "authorization_rule_versions") == 2


async def test_former_owner_is_fenced_without_answering(database_url: str) -> None:
    async with running(database_url, "old") as old:
        await furnish(database_url, old)
        async with running(database_url, "new") as new:
            pending = asyncio.create_task(old.execute(spend(1)))
            await turns(lambda: old.fenced)
            assert not pending.done()
            (reply,) = await new.execute(spend(1))
            assert approved(reply)
            assert await count(database_url, "transactions") == 1
            pending.cancel()


async def test_cut_connections_lose_no_answer(database_url: str) -> None:
    async with Proxy(database_url) as network, running(network.address, "a") as host:
        await furnish(database_url, host)
        numbers = iter(range(1, 1_000))

        async def shop() -> list[Reply]:
            replies = []
            for number in (next(numbers) for _ in range(10)):
                replies += await host.execute(spend(number, amount_minor=50))
                if number % 5 == 0:
                    network.cut()
            return replies

        replies = [reply for batch in await asyncio.gather(*(shop() for _ in range(8))) for reply in batch]
        assert all(map(approved, replies))
        assert await count(database_url, "holds") == len(replies) == 80
        (reply,) = await host.execute(read_balance(1, card_id=FIRST.id))
        assert isinstance(reply, Done)
        assert reply.body["held"] == "40.00"


async def test_idempotency_key_has_one_effect_on_two_hosts(database_url: str) -> None:
    async with running(database_url, "a") as first:
        await furnish(database_url, first)
        copies = await asyncio.gather(
            *(first.execute(load(number, card_id=FIRST.id), claim=CLAIM) for number in range(8))
        )
        bodies = [reply.body for (reply,) in copies if isinstance(reply, Done)]
        assert bodies == [bodies[0]] * 8
        async with running(database_url, "b") as second:
            (again,) = await second.execute(load(50, card_id=FIRST.id), claim=CLAIM)
            altered = await second.execute(
                load(51, card_id=FIRST.id), claim=IdempotencyClaim(CLAIM.key_digest, b"x" * 32)
            )
            assert isinstance(again, Done)
            assert (again.body, again.replayed) == (bodies[0], True)
            assert altered == [NotExecuted("key_reused")]
        assert await count(database_url, "ledger_entries") == 4


async def test_only_the_command_with_an_unstorable_value_is_faulty(
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
        replies = await host.execute(*(spend(number) for number in range(1, 6)))
        assert replies[2] == NotExecuted("faulty")
        assert [approved(reply) for reply in replies] == [True, True, False, True, True]
