"""Writes rows of the audit log in transactions of the API and of the command line. Owners write theirs with
the commit of their batch (``commit_rare_rows``)."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from actors.journal.rows import ActRow
from engine.instant import to_datetime

_INSERT: Final = f"""
    INSERT INTO audit_log ({", ".join(ActRow._fields)})
    VALUES ({", ".join(f"${number}" for number in range(1, len(ActRow._fields) + 1))})
"""


async def insert(connection: asyncpg.Connection[Any] | PoolConnectionProxy[Any], row: ActRow) -> None:
    """Write ``row`` in the connection's transaction."""
    await connection.execute(_INSERT, *row._replace(recorded_at=to_datetime(row.recorded_at)))  # type: ignore[arg-type]
