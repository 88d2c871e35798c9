"""Cards created in bulk are like issued ones, and a history is made of executed commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from engine.commands import Authorize, CardCommand, Present, ReadBalance, reference_of_id
from engine.replies import Done, Problem, Reply, WireAnswer
from ops.bench.filling import fill_cards
from ops.bench.history import make_history, read_balances
from ops.bench.load import spends
from ops.bench.row_locks import RowLocks
from tests.support.ops.bench.twin import SALE, Twin, insert_twin


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


@pytest.fixture
async def twin(database: asyncpg.Connection[Any]) -> Twin:
    return await insert_twin(database)


async def test_filled_cards_are_decided_like_issued_ones(
    database: asyncpg.Connection[Any], database_url: str, twin: Twin
) -> None:
    made = await fill_cards(database_url, twin.card.id, 7, 250)
    assert len(set(made)) == 7
    rival = RowLocks(database_url, 1)
    await rival.start()
    replies = [await rival.submit(next(spends(made[:1], SALE))) for _ in range(3)]
    await rival.stop()
    assert [reply.response_code for reply in replies if isinstance(reply, WireAnswer)] == ["00", "00", "51"]
    journal = await database.fetch("SELECT kind, seq FROM journal WHERE actor_id = $1 ORDER BY seq", made[0])
    assert [tuple(row) for row in journal] == [("create_card", 1), *(("authorize", seq) for seq in (2, 3, 4))]
    for table in ("cards", "accounts", "card_usage"):
        assert await database.fetchval(f"SELECT count(*) FROM {table}") == 8
    about = "SELECT DISTINCT programme_id::text, cardholder_id::text FROM cards"
    assert [tuple(row) for row in await database.fetch(about)] == [
        (twin.card.programme_id, twin.card.cardholder_id)
    ]
    assert await database.fetchval("SELECT count(*) FROM events WHERE type = 'card.created'") == 7


async def test_a_look_reads_each_card_once() -> None:
    seen: list[ReadBalance] = []

    async def submit(command: CardCommand) -> Reply:
        assert isinstance(command, ReadBalance)
        seen.append(command)
        return Problem(404, "not-found", "") if command.card_id.endswith("02") else Done(200, {})

    cards = ["01a20004-c598-7778-bff4-5a1c14fef401", "01a20004-c598-7778-bff4-5a1c14fef402"]
    assert await read_balances(submit, cards, "tenant") == 1
    assert [(each.card_id, each.tenant_id) for each in seen] == [(card_id, "tenant") for card_id in cards]


async def test_a_history_is_sales_and_their_presentments() -> None:
    seen: list[CardCommand] = []

    async def submit(command: CardCommand) -> Reply:
        seen.append(command)
        await asyncio.sleep(0)
        declined = isinstance(command, Authorize) and command.card_id.endswith("02")
        return WireAnswer("51" if declined else "00", command.id)

    cards = ["01a20004-c598-7778-bff4-5a1c14fef401", "01a20004-c598-7778-bff4-5a1c14fef402"]
    assert await make_history(submit, cards, SALE, 10) == 5
    sales = [each for each in seen if isinstance(each, Authorize)]
    presented = [each for each in seen if isinstance(each, Present)]
    assert [sales.count(each) for each in sales] == [1] * 10
    assert sorted(each.card_id for each in sales) == sorted(cards * 5)
    approved = {reference_of_id(each.id) for each in sales if each.card_id == cards[0]}
    assert {reference for each in presented for reference in each.references} == approved
    assert {each.amount_minor for each in presented} == {SALE["amount_minor"]}
