"""Connections use servers that accept writes, and leave a server that becomes read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from actors.database import DatabaseUnavailableError, DbConnection, session_settings
from actors.primary import CannotConnectError, accepts_writes, connect

STATEMENTS = {
    "write": "CREATE TEMP TABLE written AS SELECT 1",
    "read": "SELECT 1 AS one",
    "shown": "SHOW ALL",
}
SECONDS = 120.0


@asynccontextmanager
async def read_only(url: str) -> AsyncIterator[None]:
    """Make the database read-only for new sessions, and for sessions that have reloaded the setting."""
    name = urlsplit(url).path[1:]
    session = await asyncpg.connect(url)
    try:
        await session.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        yield
    finally:
        await session.execute("SET default_transaction_read_only = off")
        await session.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await session.close()


async def test_read_only_server_is_not_connected_to(database_url: str) -> None:
    connection = DbConnection(database_url, "test", STATEMENTS)
    async with read_only(database_url):
        with pytest.raises(DatabaseUnavailableError):
            await connection.fetch("read")
        with pytest.raises(CannotConnectError):
            await connect(database_url, "test", SECONDS, {})
    assert await connection.fetch("read")
    connection.close()


async def test_connection_is_dropped_when_its_server_becomes_read_only(database_url: str) -> None:
    connection = await connect(database_url, "test", SECONDS, session_settings(SECONDS))
    assert accepts_writes(connection)
    await connection.execute("SET default_transaction_read_only = on")
    assert not accepts_writes(connection)
    connection.terminate()
    assert not accepts_writes(connection)


async def test_connection_leaves_a_read_only_server_and_returns_by_itself(database_url: str) -> None:
    connection = DbConnection(
        database_url, "test", STATEMENTS | {"demote": "SET default_transaction_read_only = on"}
    )
    await connection.fetch("demote")
    async with read_only(database_url):
        with pytest.raises(DatabaseUnavailableError):
            await connection.fetch("write")
    await connection.fetch("write")
    connection.close()


async def test_session_has_synchronous_commit_and_time_limits(database_url: str) -> None:
    name = urlsplit(database_url).path[1:]
    session = await asyncpg.connect(database_url)
    await session.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await session.close()
    connection = DbConnection(database_url, "test", STATEMENTS, timeout_ms=10_000)
    shown = {row["name"]: row["setting"] for row in await connection.fetch("shown")}
    connection.close()
    assert shown["synchronous_commit"] == "on"
    assert shown["statement_timeout"] == "10s"
    assert shown["lock_timeout"] == "8s"
    assert shown["client_connection_check_interval"] == "500ms"
    assert shown["idle_in_transaction_session_timeout"] == "5s"


async def test_server_ends_a_statement_that_waits_for_a_lock_longer_than_its_caller(
    database_url: str,
) -> None:
    holder = await asyncpg.connect(database_url)
    waiter = await connect(database_url, "test", SECONDS, session_settings(0.5))
    async with holder.transaction():
        await holder.execute("LOCK TABLE shards")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await asyncio.wait_for(waiter.fetch("SELECT 1 FROM shards FOR UPDATE"), SECONDS)
    await waiter.close()
    await holder.close()
