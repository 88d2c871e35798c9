"""The migration runner on real servers: applied once, in order, by one runner at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from ops.database.migrate import MigrationError, load_migrations, migrate, waiting
from ops.embedded.postgres import SETTINGS, EmbeddedPostgres


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("CREATE TABLE thing (id integer); SELECT pg_sleep(0.2);")
    (folder / "0002_second.sql").write_text("INSERT INTO thing VALUES (1);")
    return folder


@pytest.fixture
async def empty_url(database_url: str) -> str:
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return database_url


async def test_the_projects_own_files_are_applied_once(empty_url: str) -> None:
    names = [migration.name for migration in load_migrations()]
    assert names
    assert await migrate(empty_url) == names
    assert await migrate(empty_url) == []


async def test_two_runners_at_once_apply_each_file_once(empty_url: str, folder: Path) -> None:
    applied = await asyncio.gather(*(migrate(empty_url, folder) for _ in range(4)))
    assert sorted(name for names in applied for name in names) == ["first", "second"]
    connection = await asyncpg.connect(empty_url)
    assert await connection.fetchval("SELECT count(*) FROM thing") == 1
    assert await connection.fetchval("SELECT count(*) FROM schema_migrations") == 2
    await connection.close()


async def test_what_takes_away_waits_for_the_last_process_of_before(empty_url: str, folder: Path) -> None:
    assert await migrate(empty_url, folder, before_only=True) == ["first", "second"]
    (folder / "0003_third.after.sql").write_text("ALTER TABLE thing RENAME COLUMN id TO number;")
    (folder / "0004_fourth.sql").write_text("CREATE TABLE other (id integer);")
    assert await migrate(empty_url, folder, before_only=True) == []
    assert await waiting(empty_url, folder) == ["third", "fourth"], "order is kept"
    assert await migrate(empty_url, folder) == ["third", "fourth"]
    assert await waiting(empty_url, folder) == []
    (folder / "0005_fifth.sql").write_text("CREATE TABLE another (id integer);")
    assert await migrate(empty_url, folder, before_only=True) == ["fifth"]


async def test_empty_database_gets_every_file(empty_url: str, folder: Path) -> None:
    (folder / "0003_third.after.sql").write_text("ALTER TABLE thing RENAME COLUMN id TO number;")
    assert await waiting(empty_url, folder) == ["first", "second", "third"]
    assert await migrate(empty_url, folder, before_only=True) == ["first", "second", "third"]


async def test_a_changed_file_is_refused(empty_url: str, folder: Path) -> None:
    await migrate(empty_url, folder)
    (folder / "0001_first.sql").write_text("CREATE TABLE thing (id bigint);")
    with pytest.raises(MigrationError, match=r"^0001_first was changed after it had been applied$"):
        await migrate(empty_url, folder)


async def test_a_database_newer_than_the_code_is_refused(empty_url: str, folder: Path) -> None:
    await migrate(empty_url, folder)
    (folder / "0002_second.sql").unlink()
    with pytest.raises(MigrationError, match=r"^the database is at version 2, this code knows 1"):
        await migrate(empty_url, folder)


async def test_a_failing_file_leaves_nothing_and_shows_no_values(empty_url: str, folder: Path) -> None:
    (folder / "0003_third.sql").write_text(
        "CREATE TABLE other (id integer UNIQUE); INSERT INTO other VALUES (424242), (424242);"
    )
    with pytest.raises(MigrationError, match=r"^0003_third failed: ") as failure:
        await migrate(empty_url, folder)
    assert "424242" not in str(failure.value)
    assert "\n" not in str(failure.value)
    connection = await asyncpg.connect(empty_url)
    assert await connection.fetchval("SELECT to_regclass('other') IS NULL")
    assert await connection.fetchval("SELECT max(version) FROM schema_migrations") == 2
    await connection.close()


async def test_a_server_that_may_lose_commits_is_refused(empty_url: str) -> None:
    connection = await asyncpg.connect(empty_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    with pytest.raises(MigrationError, match=r"^the database runs with synchronous_commit = off"):
        await migrate(empty_url)


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
async def test_a_server_that_may_lose_its_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(SETTINGS, name, "off")
    server = EmbeddedPostgres(tmp_path)
    try:
        with pytest.raises(MigrationError, match=rf"^the database runs with {name} = off and could lose"):
            await migrate(server.start())
    finally:
        server.stop()


async def test_an_unreachable_server_is_one_line() -> None:
    with pytest.raises(MigrationError, match=r"^the database cannot be reached: ") as failure:
        await migrate("postgresql://user:hidden-password@127.0.0.1:1/none")
    assert "\n" not in str(failure.value)
    assert "hidden-password" not in str(failure.value)


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"], ["1_a.sql"], ["0001-A.sql"]])
def test_files_must_be_numbered_without_gaps(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(MigrationError, match="numbered without gaps"):
        load_migrations(tmp_path)
