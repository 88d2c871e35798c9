"""Prepares a database for columns that the table ``transactions`` gains while hosts of release 0.1.0 run.

Their commit function has the row types of tables as parameters, so each of their commits would fail as soon
as one of these tables has another column. The function of that name gets the types of ``commit_batch_v2``,
which are equal to those tables as 0.1.0 knows them, and passes everything on.

Sessions that have prepared the former function cannot use the new one. They are ended before it is visible: a
host that loses its sessions reads from the journal which of its commands were executed, and executes the
others. Hosts cannot commit meanwhile, which takes a fraction of a second.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg

from ops.database.operator_connection import connect_operator

ROUNDS: Final = 4
ROUND_SECONDS: Final = 0.05
"""A host that had nothing to commit connects again when it has, perhaps with the former function; the next
round ends that session too."""
LOCK_SECONDS: Final = 10

_HAS_ROW_TYPES: Final = """
    SELECT EXISTS (
        SELECT FROM pg_proc
        WHERE proname = 'commit_batch' AND pronamespace = current_schema()::regnamespace
            AND 'transactions[]'::regtype = ANY (proargtypes)
    )
"""
_PARAMETERS: Final = """
    SELECT pg_get_function_arguments(oid) AS declared, array_to_string(proargnames, ', ') AS names
    FROM pg_proc WHERE proname = 'commit_batch_v2' AND pronamespace = current_schema()::regnamespace
"""
_END_SESSIONS: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'stanchion-host'
"""


async def prepare_first_commit(dsn: str, _keys: Any) -> bool:
    """Replace the function; returns whether it had the row types of tables. Ends the sessions of hosts of
    0.1.0, for which the role of ``dsn`` must be theirs or have ``pg_signal_backend``."""
    connection = await connect_operator(dsn)
    try:
        return await _replace(connection)
    finally:
        await connection.close(timeout=10)


async def _replace(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        # Every commit and every renewal of epochs begins with this table and waits.
        await connection.execute("LOCK TABLE hosts IN ACCESS EXCLUSIVE MODE")
        if not await connection.fetchval(_HAS_ROW_TYPES):
            return False
        parameters = await connection.fetchrow(_PARAMETERS)
        assert parameters is not None, "a migration before this step creates the function"
        await connection.execute("DROP FUNCTION commit_batch")
        await connection.execute(
            f"CREATE FUNCTION commit_batch({parameters['declared']}) RETURNS void LANGUAGE plpgsql AS $$"
            f" BEGIN PERFORM commit_batch_v2({parameters['names']}); END $$"
        )
        for _ in range(ROUNDS):
            if not await connection.fetchval(_END_SESSIONS):
                break
            await asyncio.sleep(ROUND_SECONDS)
        await connection.fetchval(_END_SESSIONS)
    return True
