"""The PL/pgSQL rival decides exactly as the engine does, byte for byte in every row it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from engine.replies import NotExecuted, WireAnswer
from ops.bench.load import spends
from ops.bench.procedure import ProcedureBatches, install
from tests.support.ops.bench.twin import CASES, SALE, STAND_IN_CASES, Twin, compare, insert_twin

EVERY = {**CASES, **{f"stand-in: {name}": case for name, case in STAND_IN_CASES.items()}}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


async def compare_all(database: asyncpg.Connection[Any], twin: Twin) -> None:
    """Compare every row, and the budget in this rival's own table."""
    await compare(database, twin)
    used = await database.fetchval("SELECT used_minor FROM bench_programmes WHERE id = $1", twin.programme.id)
    assert used == (0 if twin.outage is None else twin.outage.used_minor)


async def test_every_case_is_decided_and_written_as_the_engine_does(
    database: asyncpg.Connection[Any], database_url: str
) -> None:
    twins = {name: await insert_twin(database, **about) for name, (about, _) in EVERY.items()}
    await install(database_url)
    decider = ProcedureBatches(database_url, 1)
    await decider.start()
    waiting = [
        decider.submit(next(spends([twins[name].card.id], SALE | changes)))
        for name, (_, wanted) in EVERY.items()
        for changes in wanted
    ]
    # One connection: all spends form one batch, in order.
    replies = await asyncio.gather(*waiting)
    await decider.stop()
    codes = iter(reply.response_code for reply in replies if isinstance(reply, WireAnswer))
    for name, (_, wanted) in EVERY.items():
        twin = twins[name]
        await compare_all(database, twin)
        assert [next(codes) for _ in wanted] == [
            msgspec.json.decode(row[9])["response_code"] for row in twin.rows.journal
        ]
    assert decider.round_trips == 1


async def test_parallel_spends_never_exceed_the_funds(
    database: asyncpg.Connection[Any], database_url: str
) -> None:
    twin = await insert_twin(database)
    await install(database_url)
    deciders = [ProcedureBatches(database_url, 2) for _ in range(2)]
    for decider in deciders:
        await decider.start()
    commands = spends([twin.card.id], SALE)
    replies = await asyncio.gather(
        *(deciders[number % 2].submit(next(commands)) for number in range(16)),
    )
    for decider in deciders:
        await decider.stop()
    codes = sorted(reply.response_code for reply in replies if isinstance(reply, WireAnswer))
    assert codes == ["00"] * 10 + ["51"] * 6
    await compare_all(database, twin)


async def test_an_unknown_card_writes_no_row(database: asyncpg.Connection[Any], database_url: str) -> None:
    await install(database_url)
    decider = ProcedureBatches(database_url, 1)
    await decider.start()
    assert await decider.submit(next(spends([new_id()], SALE))) == NotExecuted("not_owner")
    await decider.stop()
    assert await database.fetchval("SELECT count(*) FROM journal") == 0
