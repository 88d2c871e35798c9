"""Hosts write the two events of an approval in one row as soon as all readers show such rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import spend, with_card

STORED = "SELECT type FROM event_rows WHERE data IS NULL ORDER BY type"
SHOWN = "SELECT type, data FROM events WHERE row_id IN (SELECT id FROM event_rows WHERE data IS NULL)"
NAMED = "UPDATE schema_migrations SET name = $2 WHERE name = $1"


@asynccontextmanager
async def incomplete_upgrade(backend: PostgresBackend) -> AsyncIterator[None]:
    await backend.session.execute(NAMED, "event_pairs_shown", "waits")
    try:
        yield
    finally:
        await backend.session.execute(NAMED, "waits", "event_pairs_shown")


async def test_hosts_write_separate_rows_until_the_upgrade_is_complete(postgres: PostgresBackend) -> None:
    async def stored() -> str:
        return "".join(row["type"] for row in await postgres.session.fetch(STORED))

    async with incomplete_upgrade(postgres):
        journal = await postgres.open("a")
        owner = await with_card(journal)
        # Alone, and in a batch.
        await journal.commit(owner.decide(spend(1, amount_minor=100)))
        await journal.commit(owner.decide(spend(2, amount_minor=100), spend(3, amount_minor=100)))
        assert await stored() == "DDDHHH"
    await journal.commit(owner.decide(spend(4, amount_minor=100)))
    assert await stored() == "DDDDHHHH", "its connection is older than the end of the upgrade"
    await journal.reset()
    await journal.commit(owner.decide(spend(5, amount_minor=100)))
    await journal.commit(owner.decide(spend(6, amount_minor=100), spend(7, amount_minor=100)))
    assert await stored() == "DDDDHHHHPPP"
    shown = await postgres.session.fetch(SHOWN)
    assert sorted(row["type"] for row in shown) == ["authorization.decided"] * 7 + ["ledger.hold.created"] * 7
    assert all(row["data"] for row in shown)
