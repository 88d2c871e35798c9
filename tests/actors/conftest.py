"""One database for all tests that relay and deliver: emptied for each, which is faster than a fresh one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.actors.outbox.database import World
from tests.conftest import PostgresServer, execute

EMPTY = """
DELETE FROM delivery_attempts; DELETE FROM deliveries; DELETE FROM webhook_endpoints; DELETE FROM events;
DELETE FROM tenants;
UPDATE relay_progress SET txid = pg_snapshot_xmin(pg_current_snapshot()), event_id = NULL;
"""


@pytest.fixture(scope="session")
def outbox_server(postgres_server: PostgresServer) -> Iterator[str]:
    """The database of these tests."""
    name = "stanchion_test_outbox"
    execute(postgres_server.admin_url, f"CREATE DATABASE {name} TEMPLATE {postgres_server.template}")
    yield postgres_server.database(name)
    execute(postgres_server.admin_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def world(outbox_server: str) -> AsyncIterator[World]:
    """It, empty."""
    connection = await asyncpg.connect(outbox_server)
    await connection.execute(EMPTY)
    yield World(connection)
    await connection.close()


@pytest.fixture
def outbox_url(world: World, outbox_server: str) -> str:
    """Its address, once it is empty."""
    return outbox_server
