"""One database for all tests of the outbox and of webhooks. It is emptied for each test, which is faster than
a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.conftest import PostgresServer
from tests.support.actors.outbox.database import EventDatabase

EMPTY = """
DELETE FROM delivery_attempts; DELETE FROM deliveries; DELETE FROM webhook_endpoints; DELETE FROM event_rows;
DELETE FROM tenants;
UPDATE relay_progress SET txid = pg_snapshot_xmin(pg_current_snapshot()), event_id = NULL;
"""


@pytest.fixture(scope="session")
def outbox_server(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of the database, which all tests share."""
    name = "stanchion_test_outbox"
    postgres_server.create(name)
    yield postgres_server.database(name)
    postgres_server.drop(name)


@pytest.fixture
async def database(outbox_server: str) -> AsyncIterator[EventDatabase]:
    """The empty database."""
    connection = await asyncpg.connect(outbox_server)
    await connection.execute(EMPTY)
    yield EventDatabase(connection)
    await connection.close()


@pytest.fixture
def outbox_url(database: EventDatabase, outbox_server: str) -> str:
    """The address of the empty database."""
    return outbox_server
