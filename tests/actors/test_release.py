"""Code of another release than the database's."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from actors import release as module
from actors.release import ReleaseError, check_release, known_migrations, refusal
from ops.database.migrate import load_migrations, migrate

KNOWN = {1: False, 2: False, 3: True, 4: False}


@pytest.mark.parametrize(
    ("applied", "floor", "reason"),
    [
        ({1, 2, 3, 4}, 4, None),
        ({1, 2, 4}, 2, None),  # an upgrade to this release is under way
        ({1, 2, 3, 4, 5, 6}, 4, None),  # an upgrade from this release is under way, or was rolled back
        ({1, 2, 3, 4, 5, 6}, 6, "this code is of an earlier release: it knows 4 migrations"),
        ({1, 2, 3}, 3, "the database lacks 1 migrations of this release: run stanchion migrate --before"),
        ({1}, 1, "the database lacks 2 migrations of this release"),
    ],
)
def test_code_runs_one_release_before_and_after_an_upgrade(
    applied: set[int], floor: int, reason: str | None
) -> None:
    found = refusal(KNOWN, applied, floor)
    assert found is None if reason is None else (found or "").startswith(reason)


def test_every_migration_is_known() -> None:
    assert known_migrations() == {each.version: each.after for each in load_migrations()}


async def test_code_of_an_earlier_release_is_refused_when_the_upgrade_is_complete(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(database_url)
    await check_release(database_url)
    everything = known_migrations()
    monkeypatch.setattr(module, "known_migrations", lambda: dict(list(everything.items())[:-1]))
    with pytest.raises(ReleaseError, match="install the newer release again"):
        await check_release(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("DELETE FROM schema_floor")
    finally:
        await connection.close()
    await check_release(database_url)
    await migrate(database_url, before_only=True)
    await check_release(database_url)


async def test_database_that_does_not_answer_refuses_no_code() -> None:
    await check_release("postgresql://nobody@127.0.0.1:1/none")


def test_migrations_are_found_beside_the_packages() -> None:
    assert Path(module.__file__).parents[1] / "ops" / "migrations" == module.MIGRATIONS
