"""Builds the indexes of a migration on a database that is in use, without blocking writes.

The migration runner does this before the migration. It can be interrupted and repeated: an index that was not
completed is built again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import asyncpg

from ops.database.operator_connection import connect_operator

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
POLL_SECONDS: Final = 0.2
# "filters" in ASCII. One runner at a time; the runner's own lock would be held by an open transaction, for
# which the building of an index waits.
LOCK: Final = int.from_bytes(b"filters", "big")

_TAKE: Final = "SELECT pg_try_advisory_lock($1)"
_DECIDED: Final = "SELECT EXISTS (SELECT FROM journal_rows)"
_INVALID: Final = """
    SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid)
"""


async def prepare_compact_transactions(dsn: str, _keys: Any) -> None:
    """Build the indexes of the migration ``compact_transactions``. Does nothing on a database without
    commands."""
    connection = await connect_operator(dsn)
    try:
        if await connection.fetchval(_DECIDED):
            await wait_for_turn(connection)
            await build_indexes(connection, MIGRATIONS / "0045_compact_transactions.sql")
    finally:
        await connection.close(timeout=10)


async def wait_for_turn(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until no other runner prepares a migration; others wait until ``connection`` is closed."""
    while not await connection.fetchval(_TAKE, LOCK):  # noqa: ASYNC110 -- another process has it
        await asyncio.sleep(POLL_SECONDS)


async def build_indexes(connection: asyncpg.Connection[asyncpg.Record], migration: Path) -> None:
    """Build every index of ``migration`` whose statement, in one line, says IF NOT EXISTS."""
    for statement in _index_statements(migration):
        await _build(connection, statement)


def _index_statements(migration: Path) -> list[str]:
    lines = [line.strip() for line in migration.read_text("utf-8").splitlines()]
    return [
        line.rstrip(";") for line in lines if line.startswith("CREATE ") and " INDEX IF NOT EXISTS " in line
    ]


async def _build(connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
    name = statement.split(" IF NOT EXISTS ")[1].split(maxsplit=1)[0]
    if await connection.fetchval(_INVALID, name):
        await connection.execute(f"DROP INDEX CONCURRENTLY {name}")
    await connection.execute(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))
