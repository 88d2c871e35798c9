"""The processes' role can do its work, but can neither delete nor rewrite append-only rows."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from actors.clock import SystemClock
from actors.database_address import role_of
from actors.journal.postgres import PostgresJournal
from actors.journal.replication import data_loss
from actors.outbox.retention import Retention, retention_connection
from actors.primary import connect
from actors.settings import Settings
from actors.vault import Vault
from ops.database import process_role
from ops.database.key_check import check_master_key
from ops.database.migrate import FOLDER, MigrationError, migrate
from ops.database.process_role import (
    APPEND_ONLY,
    APPEND_ONLY_VIEWS,
    NEVER_DELETED,
    NEVER_DELETED_VIEWS,
)
from ops.embedded.postgres import PROCESS_USER, EmbeddedPostgres
from ops.supervision.installation import Servers, database
from tests.conftest import PostgresServer, execute
from tests.support.actors.journal.cases import idempotency_row, spend, with_card
from tests.support.engine.build import TENANT

ROLE = "stanchion_test_process"
PASSWORD = 'it\'s "quoted" % text'


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """Roles belong to the whole server."""
    yield postgres_server
    execute(postgres_server.admin_url, f"DROP ROLE IF EXISTS {ROLE}")


@pytest.fixture
async def process_url(server: PostgresServer, database_url: str) -> AsyncIterator[str]:
    """The address of a migrated database with the restricted role."""
    await process_role.create(database_url, ROLE, PASSWORD)
    await process_role.grant(database_url, ROLE)
    parts = urlsplit(database_url)
    place = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{ROLE}:it%27s%20%22quoted%22%20%25%20text@{place}"))
    execute(database_url, f"DROP OWNED BY {ROLE}")


@pytest.fixture
async def process(process_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(process_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("table", [*APPEND_ONLY, *NEVER_DELETED])
async def test_append_only_rows_cannot_be_deleted(process: asyncpg.Connection, table: str) -> None:
    for statement in (f"DELETE FROM {table}", f"TRUNCATE {table}", f"DROP TABLE {table}"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await process.execute(statement)


@pytest.mark.parametrize("view", [*APPEND_ONLY_VIEWS, *NEVER_DELETED_VIEWS])
async def test_rows_cannot_be_deleted_through_a_view(process: asyncpg.Connection, view: str) -> None:
    for statement in (f"DELETE FROM {view}", f"DROP VIEW {view}"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await process.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_rows SET reply = ''",
        "UPDATE journal SET epoch = 0",
        "DELETE FROM journal",
        "UPDATE ledger_entries SET amount_minor = 1",
        "UPDATE kyc_accesses SET granted = true",
        "UPDATE audit_log SET actor = ''",
        "DELETE FROM audit_log",
        "ALTER TABLE audit_log DISABLE TRIGGER USER",
        "UPDATE schema_migrations SET checksum = ''",
        "DELETE FROM schema_migrations",
        "DELETE FROM schema_functions",
        "DELETE FROM authentication_keys",
        "UPDATE authentication_keys SET sealed = NULL",
        "INSERT INTO schema_functions (name, checksum) VALUES ('relay_events', '')",
        "CREATE OR REPLACE FUNCTION adopt_restored_events() RETURNS bigint LANGUAGE sql AS 'SELECT 0'",
        "ALTER TABLE ledger_entries DISABLE TRIGGER USER",
        "DROP TRIGGER ledger_entries_append_only ON ledger_entries",
        "ALTER TABLE journal_rows ADD COLUMN mine text",
        "SET session_replication_role = replica",
        "CREATE TABLE mine (id int)",
        "DROP FUNCTION refuse_change CASCADE",
        "ALTER SYSTEM SET fsync = off",
        "CREATE ROLE another SUPERUSER",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ],
)
async def test_statement_is_forbidden(process: asyncpg.Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await process.execute(statement)


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("statement", ["UPDATE {0} SET {1} = {1}", "DELETE FROM {0}", "TRUNCATE {0}"])
async def test_even_the_owner_cannot_change_append_only_rows(
    database_url: str, table: str, statement: str
) -> None:
    columns = {
        "journal_rows": "reply",
        "ledger_entries": "currency",
        "kyc_accesses": "field",
        "audit_log": "act",
    }
    columns |= {"card_replacements": "reason", "decision_configurations": "card"}
    owner = await asyncpg.connect(database_url)
    with pytest.raises(asyncpg.RaiseError, match=f"{table} is append-only"):
        await owner.execute(statement.format(table, columns[table]))
    await owner.close()


async def test_processes_do_their_work(process_url: str, vault: Vault) -> None:
    connection = await asyncpg.connect(process_url)
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await connection.close()
    await check_master_key(process_url, vault)
    journal = PostgresJournal(process_url, "a")
    await journal.register("a")
    owner = await with_card(journal)
    rows = owner.decide(spend(1))
    rows.idempotency.append(idempotency_row(1, SystemClock().now_ms()))
    await journal.commit(rows)
    await journal.renew(range(256), owner.epochs)
    await journal.release(range(256))
    await journal.close()
    deletions = retention_connection(process_url)
    await Retention(deletions).step()
    await deletions.fetch("reschedule_deliveries", 1.0, None, 1)
    deletions.close()


async def test_tables_of_later_migrations_are_granted(process_url: str, database_url: str) -> None:
    owner = await asyncpg.connect(database_url)
    await owner.execute("CREATE TABLE later (id int)")
    await owner.close()
    await process_role.grant(database_url, ROLE)
    connection = await asyncpg.connect(process_url)
    await connection.execute("INSERT INTO later VALUES (1)")
    await connection.close()


async def test_views_that_replace_tables_have_their_rights_at_once(
    process_url: str, database_url: str, tmp_path: Path
) -> None:
    """Before ``grant`` runs, processes of the release before use the views (0039)."""
    for path in sorted(FOLDER.glob("*.sql"))[:38]:
        shutil.copy(path, tmp_path)
    owner = await asyncpg.connect(database_url)
    await owner.execute(
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public"
    )
    await migrate(database_url, tmp_path, tmp_path)
    await process_role.grant(database_url, ROLE)
    await owner.execute((FOLDER / "0039_compact_journal.sql").read_text())
    await owner.close()
    connection = await asyncpg.connect(process_url)
    for name in ("journal", "events"):
        await connection.fetch(f"SELECT * FROM {name}")
    await connection.execute(
        "INSERT INTO events (id, tenant_id, live, type, created_at, data)"
        " VALUES ($1, $1, true, 'x', now(), '{}')",
        TENANT,
    )
    assert await connection.fetchval("SELECT data FROM events") == "{}"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("DELETE FROM journal")
    await connection.close()


async def test_missing_role_is_one_line(database_url: str) -> None:
    with pytest.raises(MigrationError, match="role no_such_role cannot be granted its rights: role"):
        await process_role.grant(database_url, "no_such_role")


async def test_owner_needs_no_grant(database_url: str) -> None:
    await process_role.grant(database_url, role_of(database_url))


def test_embedded_installation_has_both_roles_and_an_older_one_gets_them(tmp_path: Path) -> None:
    """A cluster of a release without the second role: the superuser owns its tables."""
    older = EmbeddedPostgres(tmp_path)
    try:
        execute(older.start(), "CREATE TABLE left_behind (id int)")
    finally:
        older.stop()
    settings = Settings.load(var_dir=tmp_path, redis_url="redis://127.0.0.1:1/0")
    servers = Servers(settings)
    try:
        complete = servers.start()
        assert role_of(complete.database_dsn) == PROCESS_USER
        assert role_of(complete.migrations_dsn) == "stanchion"
        assert b"stanchion:" not in complete.to_json()

        async def prepare() -> bool:
            await migrate(complete.migrations_dsn)
            await process_role.grant(complete.migrations_dsn, PROCESS_USER)
            connection = await asyncpg.connect(complete.database_dsn)
            try:
                return bool(
                    await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
                )
            finally:
                await connection.close()

        assert asyncio.run(prepare()) is False
    finally:
        servers.stop()
    with database(settings) as dsn:
        assert role_of(dsn) == "stanchion"


async def test_processes_see_the_timeline_and_whether_commits_wait_for_standbys(process_url: str) -> None:
    connection = await connect(process_url, "test", 30.0, {})
    assert connection.cluster != 0
    assert connection.timeline > 0
    assert await data_loss(connection, 1) is None
    assert await data_loss(connection, 2) is not None
    await connection.close()
