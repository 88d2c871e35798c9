"""The API's way to PostgreSQL: a connection for a moment, with a time limit, and never a wait for a dead
one.

A connection whose statement failed by time or by the network is terminated, not closed: closing one to a
frozen server can take forever and would take the pool with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import asyncpg

from actors.database import CannotConnectError, accepts_writes
from actors.metrics import Histogram
from api.faults import CONNECTION_FAILURES

STATEMENT_SECONDS: Final = 4.0
"""For a whole short transaction, the wait for a free connection included."""

POOL_WAIT: Final = Histogram()
"""How long connections were waited for; one for the process, as the pool is."""

_ENDINGS: Final[tuple[type[BaseException], ...]] = (*CONNECTION_FAILURES, asyncio.CancelledError)
"""After these the state of a connection is not known."""

# As text: the classes are generic in the type stubs alone.
Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


async def nothing_to_reset(_connection: Any) -> None:
    """For ``reset`` of the pool: no statement here leaves a setting, a cursor, a listener or a lock with its
    session, and the pool itself rolls back what was left open. Asking the server for more would cost a round
    trip after each statement.
    """


@asynccontextmanager
async def connected(pool: Pool) -> AsyncIterator[Connection]:
    """A connection for one piece of work. Raises one of ``faults.CONNECTION_FAILURES`` when the database
    does not answer.
    """
    async with asyncio.timeout(STATEMENT_SECONDS):
        began = time.monotonic()
        connection = await pool.acquire()
        POOL_WAIT.observe(time.monotonic() - began)
        try:
            if not accepts_writes(connection):
                raise CannotConnectError("read-only")
            yield connection
        except _ENDINGS:
            connection.terminate()
            raise
        finally:
            await pool.release(connection)


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """A connection inside a transaction that commits at the end of the block and rolls back on any
    exception.
    """
    async with connected(pool) as connection, connection.transaction():
        yield connection


async def fetch(pool: Pool, statement: str, *arguments: Any) -> Sequence[asyncpg.Record]:
    """All rows of one reading statement."""
    async with connected(pool) as connection:
        return await connection.fetch(statement, *arguments)


async def fetch_row(pool: Pool, statement: str, *arguments: Any) -> asyncpg.Record | None:
    """The first row of one reading statement."""
    async with connected(pool) as connection:
        return await connection.fetchrow(statement, *arguments)
