"""Prepares the filters of lists on a database that is in use: fills the columns of older transactions and
builds the indexes without blocking writes.

The migration runner does this before the migration ``list_filters``. It can be interrupted and repeated: only
empty columns are filled, and an index that was not completed is built again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import asyncpg

from ops.database.operator_connection import connect_operator

MIGRATION: Final = Path(__file__).parents[1] / "migrations" / "0022_list_filters.sql"
BATCH: Final = 1_000
FIRST: Final = "00000000-0000-0000-0000-000000000000"
POLL_SECONDS: Final = 0.2
# "filters" in ASCII. One runner at a time; the runner's own lock would be held by an open transaction, for
# which the building of an index waits.
LOCK: Final = int.from_bytes(b"filters", "big")

_TAKE: Final = "SELECT pg_try_advisory_lock($1)"
_ROWS: Final = "SELECT EXISTS (SELECT FROM transactions)"
_FILL: Final = """
    WITH batch AS (
        SELECT id, card_id, seq FROM transactions WHERE id > $1::uuid ORDER BY id LIMIT $2
    ), filled AS (
        UPDATE transactions t
        SET mcc = j.command::json ->> 'mcc', rrn = j.command::json #>> '{wire,rrn}'
        FROM batch b JOIN journal j ON j.actor_id = b.card_id AND j.seq = b.seq
        WHERE t.id = b.id AND t.mcc IS NULL RETURNING t.id)
    SELECT (SELECT id::text FROM batch ORDER BY id DESC LIMIT 1) AS last,
        (SELECT count(*) FROM filled) AS count
"""
_INVALID: Final = """
    SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid)
"""


async def prepare_list_filters(dsn: str, _keys: Any) -> int:
    """Fill the columns and build the indexes; returns the number of transactions filled. Does nothing on a
    database without transactions."""
    connection = await connect_operator(dsn)
    try:
        if not await connection.fetchval(_ROWS):
            return 0
        while not await connection.fetchval(_TAKE, LOCK):  # noqa: ASYNC110 -- another process has it
            await asyncio.sleep(POLL_SECONDS)
        filled = await _fill(connection)
        for statement in _index_statements():
            await _build(connection, statement)
        return filled
    finally:
        # Ends the lock, too.
        await connection.close(timeout=10)


async def _fill(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    filled = 0
    last: str | None = FIRST
    while last is not None:
        row = await connection.fetchrow(_FILL, last, BATCH)
        assert row is not None
        filled, last = filled + row["count"], row["last"]
    return filled


def _index_statements() -> list[str]:
    """The statements of the migration."""
    lines = MIGRATION.read_text("utf-8").splitlines()
    return [line.rstrip(";") for line in lines if line.startswith("CREATE INDEX IF NOT EXISTS")]


async def _build(connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
    name = statement.split()[5]
    if await connection.fetchval(_INVALID, name):
        await connection.execute(f"DROP INDEX CONCURRENTLY {name}")
    await connection.execute(statement.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))
