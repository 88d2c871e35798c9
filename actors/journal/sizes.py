"""Database sizes and open outages, for the metrics page."""

from __future__ import annotations

from typing import Final

import asyncpg

from actors.metrics import Figures
from actors.sqlstates import STATEMENT_FAILURES

_SIZES: Final = """
    SELECT pg_total_relation_size('journal') AS journal, pg_database_size(current_database()) AS database
"""
_OUTAGES: Final = """
    SELECT coalesce(currency, '') AS currency, count(*) AS open, sum(used_minor)::bigint AS used_minor
    FROM outages WHERE ended_at IS NULL GROUP BY 1
"""


async def read_sizes(dsn: str, seconds: float) -> Figures:
    """Sizes in bytes and open outages, by metric name. Empty if the database does not answer within
    ``seconds``."""
    try:
        connection = await asyncpg.connect(dsn, timeout=seconds, command_timeout=seconds)
    except STATEMENT_FAILURES:
        return {}
    try:
        row = await connection.fetchrow(_SIZES)
        outages = await connection.fetch(_OUTAGES)
    except STATEMENT_FAILURES:
        return {}
    finally:
        # Closing a connection to a frozen server can take forever.
        connection.terminate()
    assert row is not None, "sizes are one row"
    return {
        "stanchion_journal_bytes": row["journal"],
        "stanchion_database_bytes": row["database"],
        "stanchion_outages_open": sum(each["open"] for each in outages),
        "stanchion_outage_exposure_minor": {(each["currency"],): each["used_minor"] for each in outages},
    }
