"""Older transactions get the columns of filters, and the indexes are built while the database is in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ops.database import list_filters
from ops.database.list_filters import prepare_list_filters
from ops.database.migrate import no_keys
from tests.support.ops.earlier_database import ROWS, database_of

INDEXES = (
    "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indisvalid"
    " AND c.relname IN ('transactions_of_programme', 'transactions_declined', 'transactions_of_rrn',"
    " 'cards_of_last4', 'cards_of_state', 'cardholders_of_status')"
)


LAST_BEFORE = 21
"""The number of the migration before ``list_filters``."""


@pytest.fixture
async def earlier_release(database_url: str, tmp_path: Path) -> AsyncIterator[asyncpg.Connection[Any]]:
    """The tables of a release without the columns' values, some transactions, and one index whose building
    was interrupted."""
    session = await database_of(LAST_BEFORE, database_url, tmp_path)
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
    assert sum(await asyncio.gather(*(prepare_list_filters(database_url, no_keys) for _ in range(2)))) == ROWS
    rows = await session.fetch("SELECT mcc, rrn FROM transactions ORDER BY rrn")
    assert list(map(tuple, rows)) == [("5411", f"63262000000{number}") for number in range(1, ROWS + 1)]
    assert await session.fetchval(INDEXES) == 6
    assert await prepare_list_filters(database_url, no_keys) == 0


async def test_process_of_the_previous_release_gets_the_columns_filled(
    database_url: str, tmp_path: Path
) -> None:
    session = await database_of(LAST_BEFORE, database_url, tmp_path)
    await session.execute("CREATE TEMPORARY TABLE written AS SELECT * FROM transactions")
    await session.execute("DELETE FROM transactions")
    await session.execute("INSERT INTO transactions SELECT * FROM written")
    filled = "SELECT count(*) FROM transactions WHERE mcc = '5411' AND rrn LIKE '63262000000%'"
    assert await session.fetchval(filled) == ROWS
    await session.close()


async def test_database_without_transactions_is_left_alone(database_url: str) -> None:
    assert await prepare_list_filters(database_url, no_keys) == 0
