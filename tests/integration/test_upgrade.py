"""The SQL of two releases on one database, in the middle of an upgrade. ``python -m ops.chaos.upgrades`` does
the same with all processes of both, under load."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import asyncpg
import msgspec
import pytest

from actors.cards import rows as card_rows
from actors.journal import postgres as module
from actors.journal.commit_arguments import approval_arguments
from engine.commands.references import reference_of_id
from engine.decision.compact import compacted
from engine.replies import WireAnswer
from ops.database.migrate import FOLDER, FUNCTIONS, migrate
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import FIRST, reverse_sale, spend, with_card
from tests.support.ops.release_before import ReleaseBefore, release_before

SIGNATURES = (
    # The types of the tables journal and events have the names of the tables: commit_batch still takes them.
    "SELECT replace(replace(proname || '(' || pg_get_function_identity_arguments(oid) || ')',"
    " ' journal_rows[]', ' journal[]'), ' event_rows[]', ' events[]') FROM pg_proc"
    " WHERE pronamespace = 'public'::regnamespace"
)


@pytest.fixture(scope="module")
def before() -> ReleaseBefore:
    return release_before()


@pytest.fixture
async def backend(database_url: str, before: ReleaseBefore, tmp_path: Path) -> AsyncIterator[PostgresBackend]:
    """A database of the release before."""
    migrations, functions = tmp_path / "migrations", tmp_path / "code"
    migrations.mkdir()
    for path in sorted(FOLDER.glob("*.sql"))[: before.migrations]:
        shutil.copy(path, migrations)
    for name, sql in before.functions.items():
        (functions / Path(name).relative_to("actors").parent).mkdir(parents=True, exist_ok=True)
        (functions / Path(name).relative_to("actors")).write_text(sql)
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    await migrate(database_url, migrations, functions)
    async with PostgresBackend.on(database_url) as backend:
        yield backend


def statements_of_this_release() -> dict[str, str]:
    return {
        str(path.relative_to(FUNCTIONS.parent)): path.read_text() for path in FUNCTIONS.glob("*/sql/*.sql")
    }


async def test_processes_of_both_releases_work_in_the_middle_of_an_upgrade(
    backend: PostgresBackend, before: ReleaseBefore, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = module.STATEMENTS
    theirs = own | {
        Path(path).stem: sql
        for path, sql in before.statements.items()
        if path.startswith("actors/journal/") and "commit" in path
    }
    earlier = {row[0] for row in await backend.session.fetch(SIGNATURES)}
    monkeypatch.setattr(card_rows, "compacted", in_full)
    monkeypatch.setattr(module, "approval_arguments", in_full)
    monkeypatch.setattr(module, "STATEMENTS", theirs)
    old = await backend.open("old")
    owner = await with_card(old)
    await old.commit(owner.decide(spend(1)))

    assert await migrate(backend.url, before_only=True)
    assert await migrate(backend.url, before_only=True) == [], "a rollback brings no old function back"
    assert earlier <= {row[0] for row in await backend.session.fetch(SIGNATURES)}
    await all_prepare(backend.url, before.statements | statements_of_this_release())

    # With the statement that the process had prepared before the migration.
    await old.commit(owner.decide(spend(2)))
    new, last = await backend.open("new"), await backend.open("last")
    for number, (journal, statements) in enumerate(((new, own), (old, theirs), (last, own)), start=3):
        monkeypatch.setattr(module, "STATEMENTS", own)
        owner.epochs = await journal.take(range(256))
        owner.activate(await journal.load_cards([FIRST.id]))
        monkeypatch.setattr(module, "STATEMENTS", statements)
        monkeypatch.setattr(card_rows, "compacted", in_full if journal is old else compacted)
        alone = in_full if journal is old else approval_arguments
        monkeypatch.setattr(module, "approval_arguments", alone)
        await journal.commit(owner.decide(spend(number)))
        # Of an approval that the other release wrote.
        follow_up = reverse_sale(50 + number, reference_of_id(spend(number - 1).id))
        await journal.commit(owner.decide(follow_up))

    # The release before reads the rows of both in full.
    stored = await backend.session.fetch("SELECT left(command, 1) FROM journal_rows WHERE kind = 'authorize'")
    assert sorted(row[0] for row in stored) == ["[", "[", "{", "{", "{"]
    keys = [spend(number).command_key for number in range(1, 6)]
    replies = await backend.session.fetch(before.statements["actors/journal/sql/find_commands.sql"], keys)
    assert len([msgspec.json.decode(row["reply"], type=WireAnswer) for row in replies]) == len(keys)
    events = await backend.session.fetch("SELECT data FROM events WHERE type = 'authorization.decided'")
    assert {msgspec.json.decode(row["data"])["decision"] for row in events} == {"approved"}

    paired = "SELECT count(*) FROM event_rows WHERE type = 'P'"
    assert await backend.session.fetchval(paired) == 0, "the release before shows one event for each row"
    await migrate(backend.url)
    rows = await backend.session.fetch("SELECT seq FROM journal WHERE actor_id = $1 ORDER BY seq", FIRST.id)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 7
    holds = "SELECT count(*), sum(held_minor) = (SELECT sum(held_minor) FROM accounts) FROM transactions"
    assert tuple(await backend.session.fetchrow(holds) or ()) == (5, True)
    reversed_ = (
        "SELECT count(*) FROM transactions WHERE (status, reversed_minor) = ('reversed', approved_minor)"
    )
    assert await backend.session.fetchval(reversed_) == 3


def in_full(*_: object) -> None:
    """As ``compacted`` of a release that stores all texts in full, and as ``approval_arguments`` of one that
    has no statement for a single approval."""


async def all_prepare(url: str, statements: Mapping[str, str]) -> None:
    """The server accepts each of ``statements``, in a session that has cached nothing."""
    session = await asyncpg.connect(url)
    try:
        for path, sql in statements.items():
            try:
                await session.prepare(sql)
            except asyncpg.PostgresError as failure:
                pytest.fail(f"{path}: {failure}")
    finally:
        await session.close()
