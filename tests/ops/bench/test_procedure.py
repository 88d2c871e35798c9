"""The rival inside the database decides as the engine does, to the last byte of what it writes, alone and in
batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from engine.commands import Authorize
from engine.instant import to_ms
from engine.replies import Answer, NotExecuted
from ops.bench.load import spends
from ops.bench.procedure import BatchedCalls, Calls, install
from tests.ops.bench.twin import CASES, SALE, STAND_IN_CASES, Twin, insert_twin

RIVALS = {"calls": Calls, "batches": BatchedCalls}
EVERY = {**CASES, **{f"stand-in: {name}": case for name, case in STAND_IN_CASES.items()}}

_JOURNAL = """
    SELECT seq, command_key, kind, command, inputs, decision, reply, authorization_id::text, recorded_at
    FROM journal WHERE actor_id = $1 ORDER BY seq
"""
_TRANSACTIONS = """
    SELECT id::text, card_id::text, programme_id::text, cardholder_id::text, seq, kind, status, hold_id::text,
        currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason,
        day, remainder_minor
    FROM transactions WHERE card_id = $1 ORDER BY seq
"""
_TRANSACTION_COLUMNS = (0, 3, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21)
_STAND_INS = """
    SELECT s.id::text, outage_id::text, s.decision, rule, trigger, amount_minor, exposure_minor,
        budget_used_minor, budget_limit_minor, response_code, stan, rrn
    FROM stand_ins s JOIN journal j USING (authorization_id) WHERE card_id = $1 ORDER BY seq
"""
_STAND_IN_COLUMNS = (0, 6, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


async def written(database: asyncpg.Connection[Any], query: str, card_id: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await database.fetch(query, card_id)]


async def compare(database: asyncpg.Connection[Any], twin: Twin) -> None:
    """The twin decides what the rival has decided, at the same instants; every row is compared."""
    card_id, account = twin.card.id, twin.account
    journal = await database.fetch(_JOURNAL, card_id)
    for row in journal:
        command = msgspec.json.decode(row["command"], type=Authorize)
        twin.decide(command, to_ms(row["recorded_at"]))
    for row, mine in zip(journal, twin.rows.journal, strict=True):
        for found, expected in zip(tuple(row)[:-1], (mine[1], mine[3], *mine[5:10], mine[11]), strict=True):
            assert found == expected
    transactions = [tuple(row[at] for at in _TRANSACTION_COLUMNS) for row in twin.rows.transactions]
    assert await written(database, _TRANSACTIONS, card_id) == transactions
    holds = "SELECT id::text, account_id::text, amount_minor, state, expires_at FROM holds WHERE card_id = $1"
    found = [(*row[:4], to_ms(row[4])) for row in await written(database, holds, card_id)]
    assert sorted(found) == sorted((row[0], row[1], *row[4:7]) for row in twin.rows.holds)
    events = "SELECT id::text, type, data FROM events WHERE tenant_id = $1"
    told = await written(database, events, twin.card.tenant_id)
    assert sorted(told) == sorted((row[0], row[3], row[5]) for row in twin.rows.events)
    stood_in = [tuple(row[at] for at in _STAND_IN_COLUMNS) for row in twin.rows.stand_ins]
    assert await written(database, _STAND_INS, card_id) == stood_in
    usage = "SELECT seq, day, day_count, day_amount_minor, cvv2_failures FROM card_usage WHERE card_id = $1"
    assert await written(database, usage, card_id) == [twin.rows.usage[card_id][1:]]
    balance = "SELECT posted_minor, held_minor, version FROM accounts WHERE id = $1"
    expected = [(account.posted_minor, account.held_minor, account.version)]
    assert await written(database, balance, account.id) == expected
    declared = "SELECT balance_minor, consumed_minor FROM declared_balances WHERE card_id = $1"
    mine_declared = [] if twin.card.declared is None else [
        (twin.card.declared.balance_minor, twin.card.declared.consumed_minor)
    ]  # fmt: skip
    assert await written(database, declared, card_id) == mine_declared
    used = await database.fetchval("SELECT used_minor FROM bench_programmes WHERE id = $1", twin.programme.id)
    assert used == (0 if twin.outage is None else twin.outage.used_minor)


@pytest.mark.parametrize("rival", RIVALS)
async def test_every_case_is_decided_and_written_as_the_engine_does(
    database: asyncpg.Connection[Any], database_url: str, rival: str
) -> None:
    twins = {name: await insert_twin(database, **about) for name, (about, _) in EVERY.items()}
    await install(database_url)
    decider = RIVALS[rival](database_url, 1)
    await decider.start()
    waiting = []
    for name, (_, wanted) in EVERY.items():
        for changes in wanted:
            command = next(spends([twins[name].card.id], SALE | changes))
            waiting.append(decider.submit(command))
    # One connection: all of them in order, in one batch where there are batches.
    replies = await asyncio.gather(*waiting)
    await decider.stop()
    codes = iter(reply.response_code for reply in replies if isinstance(reply, Answer))
    for name, (_, wanted) in EVERY.items():
        twin = twins[name]
        await compare(database, twin)
        assert [next(codes) for _ in wanted] == [
            msgspec.json.decode(row[9])["response_code"] for row in twin.rows.journal
        ]
    assert decider.round_trips == (len(replies) if rival == "calls" else 1)


@pytest.mark.parametrize("rival", RIVALS)
async def test_parallel_spends_never_exceed_the_funds(
    database: asyncpg.Connection[Any], database_url: str, rival: str
) -> None:
    twin = await insert_twin(database)
    await install(database_url)
    deciders = [RIVALS[rival](database_url, 2) for _ in range(2)]
    for decider in deciders:
        await decider.start()
    commands = spends([twin.card.id], SALE)
    replies = await asyncio.gather(
        *(deciders[number % 2].submit(next(commands)) for number in range(16)),
    )
    for decider in deciders:
        await decider.stop()
    codes = sorted(reply.response_code for reply in replies if isinstance(reply, Answer))
    assert codes == ["00"] * 10 + ["51"] * 6
    await compare(database, twin)


@pytest.mark.parametrize("rival", RIVALS)
async def test_an_unknown_card_leaves_nothing(
    database: asyncpg.Connection[Any], database_url: str, rival: str
) -> None:
    await install(database_url)
    decider = RIVALS[rival](database_url, 1)
    await decider.start()
    assert await decider.submit(next(spends([new_id()], SALE))) == NotExecuted("not_owner")
    await decider.stop()
    assert await database.fetchval("SELECT count(*) FROM journal") == 0
