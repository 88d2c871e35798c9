"""Prepares the filters of lists on a database that is in use: fills the columns of older transactions and
builds the indexes without blocking writes.

The migration runner does this before the migration ``list_filters``. It can be interrupted and repeated: only
empty columns are filled.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from ops.database.concurrent_indexes import MIGRATIONS, build_indexes, wait_for_turn
from ops.database.operator_connection import connect_operator

BATCH: Final = 1_000
FIRST: Final = "00000000-0000-0000-0000-000000000000"

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


async def prepare_list_filters(dsn: str, _keys: Any) -> int:
    """Fill the columns and build the indexes; returns the number of transactions filled. Does nothing on a
    database without transactions."""
    connection = await connect_operator(dsn)
    try:
        if not await connection.fetchval(_ROWS):
            return 0
        await wait_for_turn(connection)
        filled = await _fill(connection)
        await build_indexes(connection, MIGRATIONS / "0022_list_filters.sql")
        return filled
    finally:
        await connection.close(timeout=10)


async def _fill(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    filled = 0
    last: str | None = FIRST
    while last is not None:
        row = await connection.fetchrow(_FILL, last, BATCH)
        assert row is not None
        filled, last = filled + row["count"], row["last"]
    return filled
