"""Database sizes, open outages, and the state of replication, for the metrics page."""

from __future__ import annotations

from typing import Final

from actors.database_address import servers_of
from actors.journal.replication import data_loss
from actors.metrics import Figures
from actors.primary import connect
from actors.sqlstates import STATEMENT_FAILURES

_SIZES: Final = """
    SELECT pg_total_relation_size('journal_rows') AS journal, pg_database_size(current_database()) AS database
"""
_OUTAGES: Final = """
    SELECT coalesce(currency, '') AS currency, count(*) AS open, sum(used_minor)::bigint AS used_minor
    FROM outages WHERE ended_at IS NULL GROUP BY 1
"""


async def read_sizes(dsn: str, seconds: float) -> Figures:
    """Sizes in bytes, open outages and the risk of a failover, by metric name. Empty if the database does
    not answer within ``seconds``."""
    try:
        connection = await connect(dsn, "stanchion-metrics", seconds, {}, command_seconds=seconds)
    except STATEMENT_FAILURES:
        return {}
    try:
        row = await connection.fetchrow(_SIZES)
        outages = await connection.fetch(_OUTAGES)
        risk = await data_loss(connection, len(servers_of(dsn)))
    except STATEMENT_FAILURES:
        return {}
    finally:
        # Closing a connection to a frozen server can take forever.
        connection.terminate()
    assert row is not None, "sizes are one row"
    return {
        "stanchion_journal_bytes": row["journal"],
        "stanchion_database_bytes": row["database"],
        "stanchion_data_loss_possible": float(risk is not None),
        "stanchion_outages_open": sum(each["open"] for each in outages),
        "stanchion_outage_exposure_minor": {(each["currency"],): each["used_minor"] for each in outages},
    }
