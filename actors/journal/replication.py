"""Whether the loss of PostgreSQL's primary can lose acknowledged decisions.

A standby that a failover may promote has every acknowledged commit only if the primary waits for it
(``synchronous_standby_names``). A single server without standbys has no failover, so it is not judged here.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

ARCHIVERS: Final = ("pg_basebackup", "pg_receivewal", "barman_receive_wal", "barman_streaming_backup")
"""Application names of programs that copy the write-ahead log and never become primary."""
# Roles without pg_read_all_stats see that a standby exists, and no more.
_STANDBYS: Final = """
    SELECT current_setting('synchronous_standby_names') <> '' AS waits, count(r.pid) AS standbys,
        count(r.pid) FILTER (WHERE r.sync_state = 'async') AS asynchronous
    FROM (SELECT 1) AS one
    LEFT JOIN pg_stat_replication r ON r.state IS DISTINCT FROM 'backup'
        AND coalesce(r.application_name, '') <> ALL ($1::text[])
        AND NOT EXISTS (
            SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'
        )
"""


async def data_loss(
    connection: asyncpg.Connection[Any] | PoolConnectionProxy[Any], servers: int
) -> str | None:
    """The reason for which a failover can lose acknowledged decisions; ``None`` if it cannot. ``servers``:
    the number of servers that the database address names. One line."""
    row = await connection.fetchrow(_STANDBYS, list(ARCHIVERS))
    assert row is not None, "the statement returns one row"
    if not row["waits"] and row["standbys"]:
        return (
            f"the primary does not wait for its standbys ({row['standbys']}): synchronous_standby_names is"
            " empty"
        )
    if not row["waits"] and servers > 1:
        return f"the address names {servers} servers, but synchronous_standby_names is empty"
    if row["asynchronous"]:
        return f"{row['asynchronous']} of {row['standbys']} standbys are asynchronous"
    return None
