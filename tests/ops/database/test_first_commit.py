"""Hosts of release 0.1.0 commit while their tables gain columns: their function gets other types, and their
sessions end, because they have prepared the former function."""

from __future__ import annotations

import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ops.database.first_commit import prepare_first_commit
from ops.database.migrate import FOLDER, migrate, no_keys

FIRST_RELEASE = 7
"""Migrations of release 0.1.0."""
COMMIT = f"SELECT commit_batch({', '.join(f'${number}' for number in range(1, 25))})"
"""The statement of its hosts."""
CHANGED_TRANSACTIONS = 11
"""Position of that parameter."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOST = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InterfaceError)


@pytest.fixture
async def url(database_url: str, tmp_path: Path) -> str:
    """A database of release 0.1.0."""
    for path in sorted(FOLDER.glob("*.sql"))[:FIRST_RELEASE]:
        shutil.copy(path, tmp_path)
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    functions = tmp_path / "no-functions"
    functions.mkdir()
    await migrate(database_url, tmp_path, functions)
    return database_url


async def session(url: str) -> asyncpg.Connection[asyncpg.Record]:
    return await asyncpg.connect(url, server_settings={"application_name": "stanchion-host"})


async def commit(host: asyncpg.Connection[asyncpg.Record]) -> None:
    """A batch that changes a transaction which does not exist, with all columns that 0.1.0 knows."""
    arguments: list[Any] = ["host", *([[]] * 23)]
    ids = [str(uuid.uuid4()) for _ in range(6)]
    changed = [
        (
            *(ids[0], ids[1], True, ids[2], ids[3], ids[4], 1, "purchase", "cleared", ids[5], "EUR"),
            *(1, 1, 0, 1, 0, None, NOW, NOW, "1", "2026-01-01", 0, None),
        )
    ]
    arguments[CHANGED_TRANSACTIONS] = changed
    await host.fetch(COMMIT, *arguments)


async def test_hosts_of_the_first_release_commit_after_the_migrations(url: str) -> None:
    host = await session(url)
    await commit(host)
    applied = await migrate(url, before_only=True)
    assert "object_metadata" in applied
    # A lost session has an unknown outcome, after which 0.1.0 executes its commands again. A refused commit
    # would be answered with 96.
    with pytest.raises(LOST):
        await commit(host)
    again = await session(url)
    await commit(again)
    columns = await again.fetchval(
        "SELECT count(*) FROM information_schema.columns WHERE table_name = $1", "transactions"
    )
    assert columns > 23, "the migrations add columns to the table"
    await again.close()


async def test_the_function_is_replaced_once(url: str) -> None:
    before = await asyncpg.connect(url)
    await migrate(url, before_only=True)
    assert not await prepare_first_commit(url, no_keys)
    await commit(before)
    assert await before.fetchval("SELECT count(*) FROM pg_proc WHERE proname = 'commit_batch'") == 1
    await before.close()
