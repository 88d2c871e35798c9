"""Connections to PostgreSQL for short operations, each with a time limit.

After a timeout or a network failure the connection is terminated, not closed: closing a connection to a
frozen server can block forever, and the pool with it. The server detects the disconnect within half a second
and ends the statement; ``statement_timeout`` ends it in any case.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import asyncpg

from actors.metrics import Histogram
from actors.primary import PrimaryConnection, accepts_writes, connect
from api.fairness.shares import HalfOfTheRest, Shares
from api.fairness.use import USE
from api.http.faults import CONNECTION_FAILURES
from api.http.scope import TENANT
from engine.limits import (
    API_CLIENT_CHECK_MS,
    API_CONNECTIONS,
    API_IDLE_IN_TRANSACTION_MS,
    POOL_RESERVED,
    POOL_WAITING_OF_TENANT_MAX,
    STATEMENT_MS_MAX,
)

STATEMENT_SECONDS: Final = STATEMENT_MS_MAX / 1000
"""Time limit of a whole short transaction, including the wait for a free connection."""

CONNECT_SECONDS: Final = STATEMENT_SECONDS / 2
APPLICATION: Final = "stanchion-api"

POOL_WAIT: Final = Histogram()
"""Wait times for connections; one histogram for each process, like the pool."""

_ENDINGS: Final[tuple[type[BaseException], ...]] = (*CONNECTION_FAILURES, asyncio.CancelledError)
"""After these the state of the connection is unknown, so it is terminated."""

_ABANDONED: Final[tuple[type[BaseException], ...]] = (*CONNECTION_FAILURES, asyncio.CancelledError)
"""After these no rollback is sent: the server may not answer, and the connection is terminated."""

# Quoted, because the classes are generic in the type stubs only.
Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


async def nothing_to_reset(_connection: Any) -> None:
    """The pool's ``reset``, which sends nothing. No statement here leaves a setting, a cursor, a listener or
    a lock in its session, and the pool itself rolls back open transactions. A reset statement would cost a
    round trip after each statement.
    """


def session(statement_ms: int = STATEMENT_MS_MAX) -> dict[str, str]:
    """PostgreSQL session settings of the API, by name."""
    return {
        "application_name": APPLICATION,
        "jit": "off",
        # Overrides defaults of the role and the database.
        "synchronous_commit": "on",
        "statement_timeout": str(statement_ms),
        "idle_in_transaction_session_timeout": str(API_IDLE_IN_TRANSACTION_MS),
        "client_connection_check_interval": str(API_CLIENT_CHECK_MS),
    }


class SharedPool(asyncpg.Pool):
    """A pool that divides its connections between tenants."""

    __slots__ = ("shares",)

    def __init__(
        self,
        dsn: str,
        *,
        idle: int = 1,
        size: int = API_CONNECTIONS,
        statement_ms: int = STATEMENT_MS_MAX,
    ) -> None:
        """``idle``: connections opened at the start; ``size``: maximum number of connections."""
        super().__init__(
            dsn,
            min_size=idle,
            max_size=size,
            max_queries=50_000,
            max_inactive_connection_lifetime=300.0,
            connect=partial(_connect, statement_ms),
            connection_class=PrimaryConnection,
            record_class=asyncpg.Record,
            loop=None,
            setup=None,
            init=None,
            reset=nothing_to_reset,
        )
        rest = max(1, size - POOL_RESERVED)
        self.shares = Shares(
            size, HalfOfTheRest(rest), waiting=POOL_WAITING_OF_TENANT_MAX, reserved=POOL_RESERVED
        )


async def _connect(statement_ms: int, dsn: str, **_pool: Any) -> PrimaryConnection:
    """The pool's way to connect: to the primary."""
    return await connect(dsn, APPLICATION, CONNECT_SECONDS, session(statement_ms))


@asynccontextmanager
async def connected(pool: Pool) -> AsyncIterator[Connection]:
    """A connection for one operation, from the share of the request's tenant. Do not hold it during calls to
    other processes. Raises one of ``faults.CONNECTION_FAILURES`` when the database does not answer.
    """
    async with asyncio.timeout(STATEMENT_SECONDS), AsyncExitStack() as stack:
        began = time.monotonic()
        if isinstance(pool, SharedPool):
            await stack.enter_async_context(pool.shares.place(TENANT.get()))
        connection = await _acquire(pool)
        acquired = time.monotonic()
        POOL_WAIT.observe(acquired - began)
        try:
            yield connection
        except _ENDINGS:
            connection.terminate()
            raise
        finally:
            if (use := USE.get()) is not None:
                use.seconds += time.monotonic() - acquired
            await pool.release(connection)


async def _acquire(pool: Pool) -> Connection:
    """A connection to the primary. Connections to servers that are not the primary any more are dropped."""
    while True:
        connection = await pool.acquire()
        if accepts_writes(connection):
            return connection
        connection.terminate()
        await pool.release(connection)


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """A connection inside a transaction that commits at the end of the block and rolls back on any
    exception.
    """
    async with connected(pool) as connection:
        inside = connection.transaction()
        await inside.start()
        try:
            yield connection
        except _ABANDONED:
            raise  # terminating the connection ends its transaction; a frozen server cannot roll back
        except BaseException:
            await inside.rollback()
            raise
        await inside.commit()


async def fetch(pool: Pool, statement: str, *arguments: Any) -> Sequence[asyncpg.Record]:
    """All rows of one query."""
    async with connected(pool) as connection:
        return await connection.fetch(statement, *arguments)


async def fetch_row(pool: Pool, statement: str, *arguments: Any) -> asyncpg.Record | None:
    """The first row of one query."""
    async with connected(pool) as connection:
        return await connection.fetchrow(statement, *arguments)
