"""How large the books have become, for the metrics page."""

from __future__ import annotations

from typing import Final

import asyncpg

from actors.metrics import Figures

_SIZES: Final = """
    SELECT pg_total_relation_size('journal') AS journal, pg_database_size(current_database()) AS database
"""


async def read_sizes(dsn: str, seconds: float) -> Figures:
    """Sizes in bytes, by metric name; none when the database has not answered within ``seconds``."""
    try:
        connection = await asyncpg.connect(dsn, timeout=seconds, command_timeout=seconds)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return {}
    try:
        row = await connection.fetchrow(_SIZES)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return {}
    finally:
        # Closing politely can take for ever where the server is frozen.
        connection.terminate()
    assert row is not None, "always one row"
    return {"stanchion_journal_bytes": row["journal"], "stanchion_database_bytes": row["database"]}
