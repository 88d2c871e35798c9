"""The migration runner on real servers: migrations once and in order, functions when their text changes."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import asyncpg
import pytest

from actors.journal.contract import StaleEpochError
from actors.journal.postgres import PostgresJournal
from ops.database.migrate import (
    FUNCTIONS,
    MigrationError,
    applied_line,
    load_functions,
    load_migrations,
    migrate,
    waiting,
)
from ops.embedded.postgres import SETTINGS, EmbeddedPostgres
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import spend, with_card
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import SHARD, create_card, create_programme, load

OF_COMPACT_ROWS = {"command_values", "event_rows_of", "opening_hold", "other_of_pair"}
"""Functions that never change, because views need them: a migration creates them."""
DOUBLE = "CREATE OR REPLACE FUNCTION double(_n integer) RETURNS integer LANGUAGE sql AS 'SELECT {body}'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("CREATE TABLE thing (id integer); SELECT pg_sleep(0.2);")
    (folder / "0002_second.sql").write_text("INSERT INTO thing VALUES (1);")
    return folder


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """A root without functions."""
    (root := tmp_path / "code").mkdir()
    return root


def write_function(root: Path, sql: str, name: str = "double", package: str = "package") -> None:
    folder = root / package / "sql" / "functions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sql").write_text(sql)


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def definitions(url: str) -> list[tuple[object, ...]]:
    """Every function of the schema as PostgreSQL prints it."""
    return await fetch(
        url,
        "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace ORDER BY 2",
    )


@pytest.fixture
async def empty_url(database_url: str) -> str:
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return database_url


async def test_own_files_are_applied_once(empty_url: str) -> None:
    migrations = [migration.name for migration in load_migrations()]
    functions = [function.name for function in load_functions()]
    assert migrations
    assert functions
    assert await migrate(empty_url) == migrations + functions
    assert await migrate(empty_url) == []


async def test_concurrent_runners_apply_each_file_once(empty_url: str, folder: Path, functions: Path) -> None:
    applied = await asyncio.gather(*(migrate(empty_url, folder, functions) for _ in range(4)))
    assert sorted(name for names in applied for name in names) == ["first", "second"]
    connection = await asyncpg.connect(empty_url)
    assert await connection.fetchval("SELECT count(*) FROM thing") == 1
    assert await connection.fetchval("SELECT count(*) FROM schema_migrations") == 2
    await connection.close()


async def test_after_migration_waits_for_processes_of_the_previous_release(
    empty_url: str, folder: Path, functions: Path
) -> None:
    assert await migrate(empty_url, folder, functions, before_only=True) == ["first", "second"]
    (folder / "0003_third.after.sql").write_text("ALTER TABLE thing RENAME COLUMN id TO number;")
    (folder / "0004_fourth.sql").write_text("CREATE TABLE other (id integer);")
    assert await migrate(empty_url, folder, functions, before_only=True) == ["fourth"]
    assert await waiting(empty_url, folder) == ["third"], "only the file that removes something waits"
    assert await migrate(empty_url, folder, functions) == ["third"]
    assert await waiting(empty_url, folder) == []
    (folder / "0005_fifth.sql").write_text("CREATE TABLE another (id integer);")
    assert await migrate(empty_url, folder, functions, before_only=True) == ["fifth"]


async def test_empty_database_gets_all_migrations(empty_url: str, folder: Path, functions: Path) -> None:
    (folder / "0003_third.after.sql").write_text("ALTER TABLE thing RENAME COLUMN id TO number;")
    assert await waiting(empty_url, folder) == ["first", "second", "third"]
    assert await migrate(empty_url, folder, functions, before_only=True) == ["first", "second", "third"]


async def test_changed_migration_is_refused(empty_url: str, folder: Path, functions: Path) -> None:
    await migrate(empty_url, folder, functions)
    (folder / "0001_first.sql").write_text("CREATE TABLE thing (id bigint);")
    with pytest.raises(MigrationError, match=r"^0001_first was changed after it had been applied$"):
        await migrate(empty_url, folder, functions)


async def test_database_newer_than_the_code_is_refused(empty_url: str, folder: Path, functions: Path) -> None:
    await migrate(empty_url, folder, functions)
    (folder / "0002_second.sql").unlink()
    with pytest.raises(MigrationError, match=r"^the database is at version 2, this code knows 1"):
        await migrate(empty_url, folder, functions)


async def test_failing_migration_is_rolled_back_and_its_error_shows_no_values(
    empty_url: str, folder: Path, functions: Path
) -> None:
    (folder / "0003_third.sql").write_text(
        "CREATE TABLE other (id integer UNIQUE); INSERT INTO other VALUES (424242), (424242);"
    )
    with pytest.raises(MigrationError, match=r"^0003_third failed: ") as failure:
        await migrate(empty_url, folder, functions)
    assert "424242" not in str(failure.value)
    assert "\n" not in str(failure.value)
    connection = await asyncpg.connect(empty_url)
    assert await connection.fetchval("SELECT to_regclass('other') IS NULL")
    assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == 2
    await connection.close()


async def test_server_without_synchronous_commit_is_refused(empty_url: str) -> None:
    connection = await asyncpg.connect(empty_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    with pytest.raises(MigrationError, match=r"^the database runs with synchronous_commit = off"):
        await migrate(empty_url)


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
async def test_server_with_unsafe_storage_settings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(SETTINGS, name, "off")
    server = EmbeddedPostgres(tmp_path)
    try:
        with pytest.raises(MigrationError, match=rf"^the database runs with {name} = off and could lose"):
            await migrate(server.start())
    finally:
        server.stop()


async def test_unreachable_server_is_reported_in_one_line() -> None:
    with pytest.raises(MigrationError, match=r"^the database cannot be reached: ") as failure:
        await migrate("postgresql://user:hidden-password@127.0.0.1:1/none")
    assert "\n" not in str(failure.value)
    assert "hidden-password" not in str(failure.value)


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"], ["1_a.sql"], ["0001-A.sql"]])
def test_gap_in_the_numbers_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(MigrationError, match="numbered without gaps"):
        load_migrations(tmp_path)


def test_applied_files_are_counted_by_kind() -> None:
    migrations = [migration.name for migration in load_migrations()]
    functions = [function.name for function in load_functions()]
    assert applied_line(migrations[:1] + functions[:2]) == "Applied 1 migration and 2 database functions."
    assert applied_line(migrations[:2]) == "Applied 2 migrations."
    assert applied_line(functions[:1]) == "Applied 1 database function."


async def test_upgraded_database_has_the_functions_of_a_fresh_one(empty_url: str, functions: Path) -> None:
    """The release before function files: its functions come from the migrations alone."""
    await migrate(empty_url, functions=functions)
    await migrate(empty_url)
    upgraded = await definitions(empty_url)
    await fetch(empty_url, "DROP SCHEMA public CASCADE")
    await fetch(empty_url, "CREATE SCHEMA public")
    await migrate(empty_url)
    assert await definitions(empty_url) == upgraded
    listed = await fetch(empty_url, "SELECT proname, prosrc FROM pg_proc")
    sources = {str(name): str(source) for name, source in listed}
    for function in load_functions():
        assert sources[function.name] in function.sql


async def test_every_function_that_the_code_calls_is_a_file(database_url: str) -> None:
    known = {str(name) for name, _ in await definitions(database_url)}
    statements = [path.read_text() for path in FUNCTIONS.glob("*/sql/*.sql")]
    called = {name for sql in statements for name in re.findall(r"(\w+)\(", sql)} & known
    assert {"commit_batch_v3", "take_shards_v2", "relay_events"} <= called
    assert called - OF_COMPACT_ROWS <= {function.name for function in load_functions()}


async def test_function_is_replaced_when_its_text_changes(
    empty_url: str, folder: Path, functions: Path
) -> None:
    write_function(functions, DOUBLE.format(body="_n + _n"))
    assert await migrate(empty_url, folder, functions) == ["first", "second", "double"]
    assert await migrate(empty_url, folder, functions) == []
    write_function(functions, "-- A comment.\n" + DOUBLE.format(body="2 * _n + 1"))
    assert await migrate(empty_url, folder, functions, before_only=True) == ["double"]
    assert await fetch(empty_url, "SELECT double(2)") == [(5,)]


async def test_previous_release_puts_no_older_body_back(
    empty_url: str, folder: Path, functions: Path
) -> None:
    older, newer = DOUBLE.format(body="_n + _n"), DOUBLE.format(body="2 * _n + 1")
    for text in (older, newer):
        write_function(functions, text)
        await migrate(empty_url, folder, functions)
    write_function(functions, older)
    assert await migrate(empty_url, folder, functions, before_only=True) == []
    assert await fetch(empty_url, "SELECT double(2)") == [(5,)]
    assert await migrate(empty_url, folder, functions) == ["double"], "a body that was reverted on purpose"
    assert await fetch(empty_url, "SELECT double(2)") == [(4,)]


async def test_concurrent_runners_replace_a_function_once(
    empty_url: str, folder: Path, functions: Path
) -> None:
    write_function(functions, DOUBLE.format(body="_n + _n"))
    await migrate(empty_url, folder, functions)
    write_function(functions, DOUBLE.format(body="2 * _n"))
    applied = await asyncio.gather(*(migrate(empty_url, folder, functions) for _ in range(4)))
    assert sorted(applied) == [[], [], [], ["double"]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (DOUBLE.replace("_n integer", "_n bigint"), "has other parameters in the database"),
        (
            DOUBLE.replace("_n integer", "_n integer, _m integer DEFAULT 0"),
            "has other parameters in the database",
        ),
        (
            DOUBLE.replace("_n integer", "_m integer").replace("_n", "_m"),
            "cannot change name of input parameter",
        ),
        (DOUBLE.replace("RETURNS integer", "RETURNS bigint"), "cannot change return type"),
        (DOUBLE + "; DROP TABLE thing", "cannot insert multiple commands"),
    ],
)
async def test_incompatible_function_is_refused(
    empty_url: str, folder: Path, functions: Path, changed: str, message: str
) -> None:
    write_function(functions, DOUBLE.format(body="_n"))
    await migrate(empty_url, folder, functions)
    before = await definitions(empty_url)
    write_function(functions, DOUBLE.replace("double", "later").format(body="_n"), name="later")
    write_function(functions, changed.format(body="1"))
    with pytest.raises(MigrationError, match=rf"^function double .*{message}"):
        await migrate(empty_url, folder, functions)
    assert await definitions(empty_url) == before
    assert await fetch(empty_url, "SELECT name FROM schema_functions") == [("double",)]


@pytest.mark.parametrize(
    "sql",
    [
        DOUBLE.replace(" OR REPLACE", ""),
        DOUBLE.replace("double", "triple"),
        "DROP FUNCTION double(integer);\n" + DOUBLE,
        "",
    ],
)
def test_function_file_holds_the_function_of_its_name(functions: Path, sql: str) -> None:
    write_function(functions, sql.format(body="_n"))
    with pytest.raises(MigrationError, match=r"^double\.sql: the file must begin with CREATE OR REPLACE"):
        load_functions(functions)


def test_two_files_for_one_function_are_refused(functions: Path) -> None:
    for package in ("one", "other"):
        write_function(functions, DOUBLE.format(body="_n"), package=package)
    with pytest.raises(MigrationError, match=r"^double\.sql: two files define the function$"):
        load_functions(functions)


async def test_running_hosts_use_a_replaced_body_at_their_next_call(
    database_url: str, functions: Path
) -> None:
    for path in FUNCTIONS.glob("*/sql/functions"):
        shutil.copytree(path, functions / path.relative_to(FUNCTIONS))
    body = functions / "journal" / "sql" / "functions" / "commit_batch_v3.sql"
    body.write_text(
        body.read_text().replace("BEGIN\n", "BEGIN\n    RAISE EXCEPTION USING ERRCODE = 'ST001';\n", 1)
    )
    async with PostgresBackend.on(database_url) as backend:
        journal: PostgresJournal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        assert await migrate(database_url, functions=functions) == ["commit_batch_v3"]
        with pytest.raises(StaleEpochError):
            # A single approval is committed without the function.
            await journal.commit(owner.decide(spend(2), spend(3)))
        assert await migrate(database_url) == ["commit_batch_v3"]
        owner.epochs = await journal.renew([SHARD])
        owner.activate(await journal.load_cards(owner.cards))
        await journal.commit(owner.decide(spend(2), spend(3)))


async def test_loads_from_before_the_table_of_transfers_are_counted_once(database_url: str) -> None:
    """The triggers are in force when the earlier rows are added."""
    backfill = next(each.sql for each in load_migrations() if each.name == "earlier_transfers")
    sums = "SELECT posted_minor, entries FROM account_sums"
    async with PostgresBackend.on(database_url) as backend:
        journal: PostgresJournal = await backend.open("a")
        created = create_programme()
        card = create_card(programme_id=created.config.id)
        owner = Owner(await journal.take(range(256)), created.config)
        loads = [load(number, card_id=card.id) for number in range(1, 4)]
        await journal.commit(owner.decide(created, card, *loads[:2]))
        connection = await asyncpg.connect(database_url)
        # As if both loads had been before the triggers.
        await connection.execute("DELETE FROM transfers; DELETE FROM account_sums")
        await journal.commit(owner.decide(loads[2]))
        assert await fetch(database_url, sums) == [(-5_000, 1)]
        for _ in range(2):
            await connection.execute(backfill)
            assert sorted(await fetch(database_url, sums)) == [(-10_000, 2), (-5_000, 1)]
        await connection.close()
    rows = await fetch(database_url, "SELECT kind, direction, amount_minor, metadata FROM transfers")
    assert rows == [("load", "credit", 5_000, "{}")] * 3
