"""Statements of hosts find their rows by the begin of an index, also if they were planned for other tables.

A plan lasts as long as its connection, and a warm host has planned everything before the first decision. For
a small table, or an index with few rows, PostgreSQL takes the scan of a whole index for as cheap as any
other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.database import INDEX_PLANS
from actors.journal.contract import Rows
from actors.journal.postgres import STATEMENTS, PostgresJournal
from engine.commands.references import reference_of_id
from engine.ids import Derived, derive
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import present_sale, reverse_sale, spend, with_card
from tests.support.engine.build import NOW_MS

GROWING = (
    *("accounts", "cards", "card_replacements", "card_usage", "declared_balances", "event_rows", "holds"),
    *("idempotency", "journal_rows", "ledger_entries", "tombstones", "transaction_rows"),
)
"""Tables that have a row, or more, for each card or command."""
READS_OF_COMMITS = 12
"""Scans in the three commits: counters, accounts, holds and transactions."""
FIRST_COLUMNS = """
    SELECT c.relname, pg_get_indexdef(i.indexrelid, 1, true) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
    WHERE t.relname = ANY ($1)
"""
CLOSED = """
    WITH made AS (SELECT gen_random_uuid() AS id, gen_random_uuid() AS of, n FROM generate_series(1, 2000) n),
    held AS (
        INSERT INTO holds SELECT opening_hold(id), of, of, id, 1, 'captured', now() FROM made)
    INSERT INTO transaction_rows (id, tenant_id, live, card_id, programme_id, seq, currency, requested_minor,
        created_at)
    SELECT id, of, false, of, of, n, 'EUR', 1, now() FROM made
"""


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan that reads a table or an index, except those that were not needed."""
    if ("Relation Name" in node or "Index Name" in node) and node.get("Actual Loops", 1):
        yield node
    for child in node.get("Plans", []):
        yield from scans(child)


@pytest.fixture(params=["new database", "no open hold"])
async def session(
    postgres: PostgresBackend, request: pytest.FixtureRequest
) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A session of a host on a database that was never analysed, or was while no hold was open."""
    if request.param == "no open hold":
        await postgres.session.execute(CLOSED)
        await postgres.session.execute("ANALYZE holds, transaction_rows")
    connection = await asyncpg.connect(postgres.url, server_settings=dict(INDEX_PLANS))
    yield connection
    await connection.close()


async def check(session: asyncpg.Connection[Any], name: str, plans: list[dict[str, Any]]) -> int:
    """Compare the conditions of all scans of growing tables with the first columns of the indexes; returns
    their number."""
    first = dict(await session.fetch(FIRST_COLUMNS, GROWING))
    found = [scan for plan in plans for scan in scans(plan)]
    indexed = [scan for scan in found if scan.get("Index Name") in first]
    assert not [scan for scan in found if scan.get("Relation Name") in GROWING and "Seq" in scan["Node Type"]]
    for scan in indexed:
        index = scan["Index Name"]
        condition = scan.get("Index Cond", "").replace('"', "")
        assert first[index] in condition, (name, index, condition)
    return len(indexed)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
async def test_statement_reads_by_the_begin_of_an_index(session: asyncpg.Connection[Any], name: str) -> None:
    await session.execute(f"PREPARE kept AS {STATEMENTS[name]}")
    types = await session.fetchval("SELECT parameter_types FROM pg_prepared_statements WHERE name = 'kept'")
    nothing = f"({', '.join(['NULL'] * len(types))})" if types else ""
    plan = await session.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE kept{nothing}")
    await check(session, name, [msgspec.json.decode(plan)[0]["Plan"]])


async def test_commit_function_reads_by_the_begin_of_an_index(
    postgres: PostgresBackend, session: asyncpg.Connection[Any]
) -> None:
    journal = await postgres.open("a")
    await journal.warm()
    owner = await with_card(journal)
    await journal.commit(owner.decide(spend(1), spend(2)))
    plans = await noted_plans(journal)
    sales = [reference_of_id(spend(number).id) for number in (1, 2)]
    await journal.commit(owner.decide(spend(3), reverse_sale(4, sales[0])))
    await journal.commit(owner.decide(present_sale(5, sales[1], amount_minor=spend(2).amount_minor)))
    lapsing = Rows()
    lapsing.lapse(derive(spend(3).id, Derived.HOLD), spend(3).id, NOW_MS)
    await journal.commit(lapsing)
    assert await check(session, "commit_batch", plans) >= READS_OF_COMMITS


async def noted_plans(journal: PostgresJournal) -> list[dict[str, Any]]:
    """A list that gets the plan of each statement in the commit functions of ``journal``."""
    plans: list[dict[str, Any]] = []

    def note(_: object, message: Any) -> None:
        plans.append(msgspec.json.decode(str(message.message).partition("plan:\n")[2])["Plan"])

    writer = journal._writer
    assert writer is not None
    await writer.execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_format = json;"
        " SET auto_explain.log_nested_statements = on; SET auto_explain.log_level = notice;"
        " SET auto_explain.log_analyze = on"
    )
    writer.add_log_listener(note)
    return plans
