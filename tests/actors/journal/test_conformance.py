"""Both journals keep one contract: three suites run on each, and one history through both."""

from __future__ import annotations

import random

import pytest

from actors.journal.contract import PastOf
from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Table
from actors.journal.rows import IdempotencyRow
from engine.rules.velocity import Counted
from tests.support.actors.journal.backends import TABLES, Backend, MemoryBackend, PostgresBackend
from tests.support.actors.journal.cases import act_row
from tests.support.actors.journal.history import commands
from tests.support.actors.journal.owner import Owner
from tests.support.actors.journal.ownership import Ownership
from tests.support.actors.journal.refusals import Refusals
from tests.support.actors.journal.stored_state import StoredState
from tests.support.engine.build import NOW_MS, create_programme

HOUR_MS = 3_600_000


class TestMemory(StoredState, Refusals, Ownership):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()


class TestPostgres(StoredState, Refusals, Ownership):
    @pytest.fixture
    def backend(self, postgres: PostgresBackend) -> PostgresBackend:
        return postgres

    async def test_twin_has_the_columns_of_the_tables(self, backend: PostgresBackend) -> None:
        store = MemoryStore()
        for name in TABLES:
            table: Table = getattr(store, name)
            columns = await backend.session.fetch(
                "SELECT attname AS name FROM pg_attribute"
                " WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                name,
            )
            # Only indexed queries of the view events need the id of the row.
            names = tuple(column["name"] for column in columns if column["name"] != "row_id")
            assert table.columns == names, name

    async def test_one_history_leaves_the_same_rows_in_both(self, backend: PostgresBackend) -> None:
        twin = MemoryBackend()
        for each in (backend, twin):
            await commit_history(each)
        for name in TABLES:
            rows = await twin.table(name)
            assert rows, f"the history writes no row into {name}"
            assert await backend.table(name) == rows, name

    async def test_one_history_has_the_same_past_in_both(self, backend: PostgresBackend) -> None:
        pasts = []
        for each in (backend, MemoryBackend()):
            await commit_history(each)
            journal = await each.open("b")
            rows = await each.table("cards")
            accounts = {row["account_id"] for row in rows} - {None}
            late_ms = NOW_MS + 100 * HOUR_MS
            wanted = [PastOf(row["id"], "card", since_ms) for since_ms in (0, late_ms) for row in rows]
            wanted += [PastOf(id_, "account", NOW_MS) for id_ in sorted(accounts)]
            pasts.append([past_of(await journal.load_past([subject])) for subject in wanted])
        assert pasts[0] == pasts[1]
        assert any(counted.count for past in pasts[0] for counted in past)
        assert any(counted.key.startswith("k:") for past in pasts[0] for counted in past)


def past_of(loaded: dict[str, list[Counted]]) -> list[Counted]:
    """The only past of ``loaded``, in order."""
    (past,) = loaded.values()
    return sorted(past, key=lambda each: (each.at_ms, each.key))


async def commit_history(backend: Backend) -> None:
    """Commit a few hundred commands in batches of every size."""
    dice = random.Random(1)
    journal = await backend.open("a")
    owner = Owner(await journal.take(range(256)))
    first = owner.decide(create_programme())
    first.acts.append(act_row(1))
    first.idempotency.append(IdempotencyRow(b"k" * 32, b"f" * 32, 201, b"body", NOW_MS))
    await journal.commit(first)
    history = list(commands(dice))
    now_ms = NOW_MS
    while history:
        batch = [history.pop(0) for _ in range(min(len(history), dice.randint(1, 20)))]
        now_ms += dice.choice((1, HOUR_MS, 30 * HOUR_MS))
        await journal.commit(owner.decide(*batch, now_ms=now_ms))
