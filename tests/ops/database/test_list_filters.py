"""Older transactions get the columns of filters, and the indexes are built while the database is in use."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ops.database import list_filters
from ops.database.list_filters import prepare_list_filters
from ops.database.migrate import FOLDER, migrate, no_keys
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import spend, with_card

INDEXES = (
    "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indisvalid"
    " AND c.relname IN ('transactions_of_programme', 'transactions_declined', 'transactions_of_rrn',"
    " 'cards_of_last4', 'cards_of_state', 'cardholders_of_status')"
)


LAST_BEFORE = 21
"""The number of the migration before ``list_filters``."""
FILLED = """
    INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'acme');
    WITH made AS (
        SELECT gen_random_uuid() AS id, id AS tenant_id, n FROM tenants, generate_series(1, 7) n
    ), recorded AS (
        INSERT INTO journal (actor_id, seq, epoch, command_key, kind, command, reply, recorded_at)
        SELECT tenant_id, n, 1, uuid_send(id), 'authorize',
            json_build_object('mcc', '5411', 'wire', json_build_object('rrn', '63262000000' || n)), '{}',
            now()
        FROM made)
    INSERT INTO transactions (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status,
        currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, created_at,
        updated_at, day, remainder_minor)
    SELECT id, tenant_id, false, tenant_id, tenant_id, tenant_id, n, 'purchase', 'pending', 'EUR', 1, 1, 1, 0,
        0, now(), now(), '2026-01-01', 1 FROM made
"""


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[PostgresBackend]:
    """A database with the tables of this release."""
    async with PostgresBackend.on(database_url) as backend:
        yield backend


@pytest.fixture
async def earlier_release(database_url: str, tmp_path: Path) -> AsyncIterator[asyncpg.Connection[Any]]:
    """The tables of a release without the columns' values, seven transactions, and one index whose building
    was interrupted."""
    (folder := tmp_path / "migrations").mkdir()
    for path in sorted(FOLDER.glob("*.sql"))[:LAST_BEFORE]:
        shutil.copy(path, folder)
    session = await asyncpg.connect(database_url)
    await session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await migrate(database_url, folder, tmp_path / "no functions")
    await session.execute(FILLED)
    await session.execute("UPDATE transactions SET mcc = NULL, rrn = NULL")
    await session.execute("CREATE INDEX transactions_of_rrn ON transactions (tenant_id, live, rrn)")
    await session.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'transactions_of_rrn'::regclass"
    )
    yield session
    await session.close()


async def test_columns_are_filled_and_indexes_built(
    earlier_release: asyncpg.Connection[Any], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_filters, "BATCH", 3)
    session = earlier_release
    assert sum(await asyncio.gather(*(prepare_list_filters(database_url, no_keys) for _ in range(2)))) == 7
    rows = await session.fetch("SELECT mcc, rrn FROM transactions ORDER BY rrn")
    assert list(map(tuple, rows)) == [("5411", f"63262000000{number}") for number in range(1, 8)]
    assert await session.fetchval(INDEXES) == 6
    assert await prepare_list_filters(database_url, no_keys) == 0


async def test_process_of_the_previous_release_gets_the_columns_filled(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    await journal.commit(owner.decide(spend(1)))
    session = await asyncpg.connect(postgres.url)
    row = await session.fetchrow("DELETE FROM transactions RETURNING *")
    assert row is not None
    written = {name: value for name, value in row.items() if name not in {"mcc", "rrn"}}
    places = ", ".join(f"${number}" for number in range(1, len(written) + 1))
    await session.execute(
        f"INSERT INTO transactions ({', '.join(written)}) VALUES ({places})", *written.values()
    )
    again = await session.fetchrow("SELECT mcc, rrn FROM transactions")
    assert (row["mcc"], row["rrn"]) == tuple(again or ())
    await session.close()


async def test_database_without_transactions_is_left_alone(database_url: str) -> None:
    assert await prepare_list_filters(database_url, no_keys) == 0
