"""A connection returns rows or raises in time, and reconnects after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from actors.network.database import GENERIC_PLANS, SQL, DatabaseUnavailableError, NetworkDbConnection, Run


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[NetworkDbConnection]:
    db = NetworkDbConnection(database_url, "test-db")
    yield db
    db.close()
    db.close()


async def test_concurrent_statements_run_one_at_a_time(db: NetworkDbConnection) -> None:
    rows = await asyncio.gather(*(db.fetch("take_stans", "1", 10) for _ in range(5)))
    assert sorted(row[0]["first"] for row in rows) == [0, 10, 20, 30, 40]


async def test_terminated_connection_is_replaced(db: NetworkDbConnection, database_url: str) -> None:
    await db.fetch("take_stans", "1", 10)
    other = await asyncpg.connect(database_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-db'"
    )
    await other.close()
    try:
        rows = await db.fetch("take_stans", "1", 10)
    except DatabaseUnavailableError:
        rows = await db.fetch("take_stans", "1", 10)
    assert rows[0]["first"] == 10


async def test_slow_statement_times_out(database_url: str) -> None:
    other = await asyncpg.connect(database_url)
    db = NetworkDbConnection(database_url, "test-db", timeout_ms=200)
    async with other.transaction():
        await other.execute("LOCK TABLE stan_blocks")
        with pytest.raises(DatabaseUnavailableError, match=r"take_stans: (LockNotAvailable|Timeout)Error"):
            await db.fetch("take_stans", "1", 10)
    assert (await db.fetch("take_stans", "1", 10))[0]["first"] >= 0
    await other.close()
    db.close()


async def test_missing_server_raises_in_time() -> None:
    db = NetworkDbConnection("postgresql://nobody@127.0.0.1:1/nothing", "test-db", timeout_ms=500)
    with pytest.raises(DatabaseUnavailableError):
        await db.fetch("take_stans", "1", 10)


async def test_errors_contain_no_values(db: NetworkDbConnection) -> None:
    with pytest.raises(DatabaseUnavailableError) as failed:
        await db.fetch("open_cards", ["not-a-uuid-4111111111111111"])
    assert "4111" not in str(failed.value)
    assert failed.value.__cause__ is None


async def test_transaction_commits_all_statements(db: NetworkDbConnection) -> None:
    async def work(run: Run) -> int:
        first: int = (await run("take_stans", "1", 10))[0]["first"]
        await run("take_stans", "1", 10)
        return first

    assert await db.transact("takes", work) == 0
    assert (await db.fetch("take_stans", "1", 10))[0]["first"] == 20


@pytest.mark.parametrize("failure", [RuntimeError, asyncpg.PostgresError])
async def test_failed_transaction_is_rolled_back(db: NetworkDbConnection, failure: type[Exception]) -> None:
    async def work(run: Run) -> None:
        await run("take_stans", "1", 10)
        raise failure

    expected = DatabaseUnavailableError if failure is asyncpg.PostgresError else failure
    with pytest.raises(expected):
        await db.transact("takes", work)
    assert (await db.fetch("take_stans", "1", 10))[0]["first"] == 0


async def test_cancelled_transaction_is_rolled_back(db: NetworkDbConnection) -> None:
    begun = asyncio.Event()

    async def work(run: Run) -> None:
        await run("take_stans", "1", 10)
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(db.transact("takes", work))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await db.fetch("take_stans", "1", 10))[0]["first"] == 0


def test_statements_are_loaded_by_name() -> None:
    assert set(SQL) == {
        "claim_due_sales",
        "find_authentication_keys",
        "find_cards",
        "find_failed",
        "find_open_amount",
        "find_replies",
        "find_signed_off_links",
        "find_simulations",
        "find_unanswered",
        "insert_active_spend",
        "insert_active_spends",
        "insert_simulations",
        "lock_sales",
        "open_cards",
        "record_simulations",
        "report_links",
        "take_stans",
        "update_sales",
    }


@pytest.mark.parametrize(
    ("statement", "parameters", "table"),
    [
        ("record_simulations", 13, "simulations"),
        ("insert_active_spend", 10, "cards"),
        ("insert_active_spends", 10, "cards"),
    ],
)
async def test_generic_plan_uses_the_primary_key(
    database_url: str, statement: str, parameters: int, table: str
) -> None:
    """Even when planned with statistics of empty tables, for which a full index scan looks free."""
    connection = await asyncpg.connect(database_url, server_settings=dict(GENERIC_PLANS))
    await connection.execute(f"ANALYZE {table}")
    await connection.execute(f"PREPARE kept AS {SQL[statement]}")
    nothing = ", ".join(["NULL"] * parameters)
    plan = [row[0].strip() for row in await connection.fetch(f"EXPLAIN EXECUTE kept({nothing})")]
    await connection.close()
    scans = [number for number, line in enumerate(plan) if f" on {table} " in line and "Scan" in line]
    assert len(scans) == 1, plan
    assert plan[scans[0] + 1].startswith("Index Cond: (id = "), plan
