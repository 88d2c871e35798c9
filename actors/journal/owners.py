"""Who owns which shard, as the journal has it: what a coordinator starts from."""

from __future__ import annotations

import asyncpg


async def read_owners(dsn: str) -> dict[int, str | None]:
    """The incarnation that holds the newest epoch of each shard; it may have died long ago."""
    connection = await asyncpg.connect(dsn, timeout=5, command_timeout=5)
    try:
        rows = await connection.fetch("SELECT shard, host FROM shards")
        return {row["shard"]: row["host"] for row in rows}
    finally:
        await connection.close(timeout=5)
