"""A warm journal has used every statement of a takeover on each of its connections."""

from __future__ import annotations

from actors.journal.first_reads import first_reads
from actors.journal.postgres import POOLED, STATEMENTS
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import FIRST, spend, with_card

COMMITS = ("commit_batch", "commit_rare_rows")
ROWS = "SELECT (SELECT count(*) FROM journal), (SELECT sum(epoch) FROM shards), (SELECT count(*) FROM events)"


async def test_warm_connections_know_the_statements_of_a_takeover(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    before = await postgres.session.fetchrow(ROWS)
    await journal.warm()
    assert await postgres.session.fetchrow(ROWS) == before
    prepared = []
    for connection in journal._open:
        known = await connection.fetch("SELECT statement FROM pg_prepared_statements")
        prepared.append({row["statement"] for row in known})
    reads = {STATEMENTS[name] for name, _ in first_reads("a")}
    assert sum(reads <= known for known in prepared) == POOLED
    assert any({STATEMENTS[name] for name in COMMITS} <= known for known in prepared)


async def test_warm_journal_commits_and_reads(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    await journal.warm()
    owner = await with_card(journal)
    await journal.commit(owner.decide(spend(1)))
    assert FIRST.id in (await journal.load_cards([FIRST.id])).cards
