"""An edge knows the current and the previous key of each programme, and never accepts a value without
them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from actors.network.authentication_keys import SEAL, AuthenticationKeys
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection
from actors.vault import Vault
from tests.support.actors.network.rows import TENANT_ID
from tests.support.actors.network.support import until

PROGRAMME, OTHER = "01900000-0000-7000-8000-0000000000c1", "01900000-0000-7000-8000-0000000000c2"
FIRST, SECOND = bytes([1]) * 32, bytes([2]) * 32


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to a database with two programmes."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT_ID)
    for programme in (PROGRAMME, OTHER):
        await connection.execute(
            "INSERT INTO programmes (id, tenant_id, live, version, seq, config)"
            " VALUES ($1, $2, false, 1, 1, '{}')",
            programme,
            TENANT_ID,
        )
    yield connection
    await connection.close()


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[NetworkDbConnection]:
    connection = NetworkDbConnection(database_url, "test-keys")
    yield connection
    connection.close()


async def store(
    connection: asyncpg.Connection[asyncpg.Record],
    vault: Vault,
    current: bytes | None,
    previous: bytes | None = None,
) -> None:
    sealed = [
        None if key is None else vault.seal(SEAL, key, PROGRAMME.encode()) for key in (current, previous)
    ]
    await connection.execute(
        "INSERT INTO authentication_keys VALUES ($1, $2, $3) ON CONFLICT (programme_id) DO UPDATE"
        " SET sealed = $2, previous_sealed = $3, changed_at = clock_timestamp()",
        PROGRAMME,
        *sealed,
    )


async def test_changed_keys_are_read(
    database: asyncpg.Connection[asyncpg.Record], db: NetworkDbConnection, vault: Vault
) -> None:
    keys = AuthenticationKeys(db.fetch, vault)
    for current, previous, known in (
        (FIRST, None, (FIRST,)),
        (SECOND, FIRST, (SECOND, FIRST)),
        (None, None, ()),
    ):
        await store(database, vault, current, previous)
        await keys.refresh()
        assert keys.of(PROGRAMME) == known
        assert keys.of(OTHER) == ()


async def test_no_value_is_judged_before_the_keys_are_known(
    database: asyncpg.Connection[asyncpg.Record], db: NetworkDbConnection, vault: Vault
) -> None:
    keys = AuthenticationKeys(db.fetch, vault)
    with pytest.raises(DatabaseUnavailableError):
        keys.of(PROGRAMME)
    await keys.refresh()
    assert keys.of(PROGRAMME) == ()


async def test_unreadable_key_is_replaced_by_one_that_no_value_fits(
    database: asyncpg.Connection[asyncpg.Record], db: NetworkDbConnection, vault: Vault
) -> None:
    await store(database, Vault((bytes(32),)), FIRST)
    keys = AuthenticationKeys(db.fetch, vault)
    await keys.refresh()
    (only,) = keys.of(PROGRAMME)
    assert len(only) == len(FIRST)
    assert only != FIRST


async def test_keys_are_read_at_start_and_kept_through_an_outage(
    database: asyncpg.Connection[asyncpg.Record], db: NetworkDbConnection, vault: Vault
) -> None:
    await store(database, vault, FIRST)
    failing = False

    async def run(statement: str, *arguments: object) -> list[asyncpg.Record]:
        if failing:
            raise DatabaseUnavailableError
        return await db.fetch(statement, *arguments)

    keys = AuthenticationKeys(run, vault)
    keys.start()
    await until(lambda: keys._newest is not None)
    assert keys.of(PROGRAMME) == (FIRST,)
    failing = True
    with pytest.raises(DatabaseUnavailableError):
        await keys.refresh()
    assert keys.of(PROGRAMME) == (FIRST,)
    await keys.stop()
    await keys.stop()
