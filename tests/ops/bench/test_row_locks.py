"""The row-lock rival decides correctly and writes the same rows as a journal's owner; otherwise the
comparison would be unfair."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id, new_id_beside
from engine.commands import Authorize
from engine.programmes.programme import ProgrammeConfig
from engine.replies import NotExecuted, Reply, WireAnswer
from ops.bench.load import ClosedLoop, spends
from ops.bench.row_locks import RowLocks

FUNDS_MINOR = 1_000
SALE = {
    "amount_minor": 100,
    "currency": "EUR",
    "mcc": "5411",
    "merchant_name": "Corner Grocer",
    "merchant_country": "IE",
    "channel": "pos",
}
WRITTEN = ("journal", "transactions", "holds", "events")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


@pytest.fixture
async def card_id(database: asyncpg.Connection[Any]) -> str:
    """An active card whose account has 10.00."""
    tenant_id, programme_id, other_id, card_id = (new_id() for _ in range(4))
    account_id = new_id_beside(card_id)
    config = ProgrammeConfig(id=programme_id, tenant_id=tenant_id, live=False, name="x", currency="EUR")
    await database.execute("INSERT INTO tenants VALUES ($1, 'bench')", tenant_id)
    await database.execute(
        "INSERT INTO programmes VALUES ($1, $2, false, 1, 1, $3, NULL)",
        *(programme_id, tenant_id, msgspec.json.encode(config).decode()),
    )
    await database.execute(
        "INSERT INTO accounts VALUES ($1, $2, false, $3, 'card', 'EUR', $4, 0, 1)",
        *(account_id, tenant_id, programme_id, FUNDS_MINOR),
    )
    await database.execute(
        "INSERT INTO cards VALUES ($1, $2, false, $3, $4, $4, $5, 'visa', 'EUR', '456000', '1234', 'ref', 12,"
        " 2099, '1', 'active', NULL, '[]', true, now())",
        *(card_id, tenant_id, programme_id, other_id, account_id),
    )
    await database.execute("INSERT INTO card_usage VALUES ($1, 0, '', 0, 0, 0)", card_id)
    return card_id


@pytest.fixture
async def rival(database_url: str, card_id: str) -> AsyncIterator[RowLocks]:
    made = RowLocks(database_url, 4)
    await made.start()
    yield made
    await made.stop()


async def counts(database: asyncpg.Connection[Any]) -> dict[str, int]:
    return {table: await database.fetchval(f"SELECT count(*) FROM {table}") for table in WRITTEN}


async def test_an_approval_writes_every_row(
    rival: RowLocks, database: asyncpg.Connection[Any], card_id: str
) -> None:
    reply = await rival.submit(next(spends([card_id], SALE)))
    assert isinstance(reply, WireAnswer)
    assert (reply.response_code, reply.approved_minor) == ("00", 100)
    assert await counts(database) == {"journal": 1, "transactions": 1, "holds": 1, "events": 2}
    assert tuple(await database.fetchrow("SELECT held_minor, version FROM accounts") or ()) == (100, 2)
    usage = await database.fetchrow("SELECT seq, day_count, day_amount_minor FROM card_usage")
    assert tuple(usage or ()) == (1, 1, 100)


async def test_parallel_spends_never_exceed_the_funds(
    rival: RowLocks, database: asyncpg.Connection[Any], card_id: str
) -> None:
    commands = spends([card_id], SALE)
    replies = await asyncio.gather(*(rival.submit(next(commands)) for _ in range(16)))
    codes = sorted(reply.response_code for reply in replies if isinstance(reply, WireAnswer))
    assert codes == ["00"] * 10 + ["51"] * 6
    assert await counts(database) == {"journal": 16, "transactions": 16, "holds": 10, "events": 26}
    assert await database.fetchval("SELECT held_minor FROM accounts") == FUNDS_MINOR
    assert await database.fetchval("SELECT seq FROM card_usage") == 16


async def test_waiting_spends_get_a_connection_in_order(
    rival: RowLocks, card_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, begun = spends([card_id], SALE), []
    transaction = rival._transaction

    async def recorded(connection: Any, command: Authorize) -> Reply:
        begun.append(command.id)
        return await transaction(connection, command)

    async def spend(command: Authorize) -> None:
        await rival.submit(command)
        await rival.submit(next(commands))

    monkeypatch.setattr(rival, "_transaction", recorded)
    first = list(itertools.islice(commands, 12))
    await asyncio.gather(*(spend(command) for command in first))
    # Four connections: no spend that came later overtakes one that waits.
    assert begun[:12] == [command.id for command in first]
    assert len(begun) == 24


async def test_an_unknown_card_writes_no_row(rival: RowLocks, database: asyncpg.Connection[Any]) -> None:
    assert await rival.submit(next(spends([new_id()], SALE))) == NotExecuted("not_owner")
    assert await counts(database) == dict.fromkeys(WRITTEN, 0)


async def test_a_failed_spend_returns_its_connection(
    rival: RowLocks, database: asyncpg.Connection[Any], card_id: str
) -> None:
    command = next(spends([card_id], SALE))
    await rival.submit(command)
    for _ in range(5):
        with pytest.raises(asyncpg.UniqueViolationError):
            await rival.submit(command)
    assert await counts(database) == {"journal": 1, "transactions": 1, "holds": 1, "events": 2}


async def test_a_closed_loop_reports_the_approvals(rival: RowLocks, card_id: str) -> None:
    loop = ClosedLoop(rival.submit, [card_id], SALE, 3)
    await asyncio.sleep(0)
    outcome = await loop.stop()
    assert outcome["approved"] + outcome["refused"] == len(outcome["done"]) == len(outcome["started"]) == 3
