"""The indexes of compact transactions are built while the database is in use, before the migration."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ops.database.concurrent_indexes import prepare_compact_transactions
from ops.database.migrate import migrate, no_keys
from tests.support.ops.earlier_database import ROWS, database_of

LAST_BEFORE = 44
"""The number of the migration before ``compact_transactions``."""
NEW = (
    *("transactions_key", "transactions_of_reference", "holds_of_account", "holds_expiring"),
    "journal_command",
)
VALID = """
    SELECT c.relname, c.oid::int FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indisvalid AND c.relname = ANY ($1)
"""
JOURNALED = """
    INSERT INTO journal_rows
    SELECT actor_id, seq + 100, epoch, sha256(command_key), fingerprint, kind, command, inputs, decision,
        reply, recorded_at, authorization_id FROM journal_rows
"""
OLD = ("transactions_of_tenant", "transactions_of_rrn", "holds_open", "holds_due")


async def test_indexes_are_built_once_and_an_interrupted_one_again(database_url: str, tmp_path: Path) -> None:
    session = await database_of(LAST_BEFORE, database_url, tmp_path)
    await session.execute(
        "CREATE UNIQUE INDEX journal_command ON journal_rows (substring(command_key FROM 2))"
    )
    await session.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'journal_command'::regclass"
    )
    await asyncio.gather(*(prepare_compact_transactions(database_url, no_keys) for _ in range(2)))
    built = dict(await session.fetch(VALID, NEW))
    assert set(built) == set(NEW)
    await migrate(database_url, before_only=True)
    assert dict(await session.fetch(VALID, NEW)) == built
    await session.close()


async def test_rows_of_the_release_before_are_shown_unchanged(database_url: str, tmp_path: Path) -> None:
    session = await database_of(LAST_BEFORE, database_url, tmp_path)
    before = await session.fetch("SELECT * FROM transactions ORDER BY id")
    assert len(before) == ROWS
    for before_only in (True, False):
        await migrate(database_url, before_only=before_only)
        assert await session.fetch("SELECT * FROM transactions ORDER BY id") == before
        remaining = dict(await session.fetch(VALID, OLD))
        assert set(remaining) == (set(OLD) if before_only else set())
    await session.close()


async def test_migration_does_not_wait_for_the_journal(database_url: str, tmp_path: Path) -> None:
    """A commit writes its journal row first. If the migration waited for it, both would wait in a circle."""
    session = await database_of(LAST_BEFORE, database_url, tmp_path)
    await prepare_compact_transactions(database_url, no_keys)
    async with session.transaction():
        await session.execute(JOURNALED)
        assert "compact_transactions" in await migrate(database_url, before_only=True)
        await session.execute("UPDATE transactions SET held_minor = 0")
    assert await session.fetchval("SELECT sum(held_minor) FROM transactions") == 0
    await session.close()


async def test_database_without_commands_is_left_alone(database_url: str) -> None:
    await prepare_compact_transactions(database_url, no_keys)
