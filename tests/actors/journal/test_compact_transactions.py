"""The table ``transaction_rows`` lacks values that most rows have; the view ``transactions`` shows all."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.journal.contract import Journal, Rows
from actors.journal.rows import HoldRow, TransactionRow
from engine.commands.references import reference_of_id
from engine.ids import Derived, derive
from tests.support.actors.journal.backends import Backend, MemoryBackend, PostgresBackend
from tests.support.actors.journal.cases import FIRST, present_sale, spend, with_card
from tests.support.engine.build import NOW_MS, an_id

NEXT_DAY_MS = NOW_MS + 86_400_000
COMPACT = (
    *("kind", "status", "hold_id", "approved_minor", "held_minor", "cleared_minor", "reversed_minor"),
    *("updated_at", "day", "remainder_minor", "cardholder_id"),
)
"""Columns with a value that the view supplies."""
ROWS = 200


def some(chance: random.Random, number: int) -> TransactionRow:
    """A transaction with any values that the types allow."""
    id_ = an_id(1_000 + number)
    requested_minor = chance.choice((0, 1, 500))

    def amount_minor() -> int:
        return chance.choice((0, 1, requested_minor))

    return TransactionRow(
        id_,
        FIRST.tenant_id,
        FIRST.live,
        FIRST.id,
        FIRST.cardholder_id,
        FIRST.programme_id,
        number,
        chance.choice(("purchase", "refund", "force_post", "verification")),
        chance.choice(("pending", "cleared", "declined")),
        chance.choice((None, derive(id_, Derived.HOLD), an_id(9_000 + number))),
        "EUR",
        requested_minor,
        amount_minor(),
        amount_minor(),
        amount_minor(),
        amount_minor(),
        chance.choice((None, "card_expired")),
        NOW_MS,
        chance.choice((NOW_MS, NEXT_DAY_MS)),
        chance.choice((None, "N1")),
        chance.choice(("2026-01-02", "")),
        amount_minor(),
        chance.choice((None, "captured", "released")),
        "5411",
        chance.choice((None, "632620000001")),
    )


def change_of(row: TransactionRow, to: TransactionRow, *, named: bool) -> TransactionRow:
    """The change of ``row`` to the values of ``to``, as owners write it. ``named``: with tenant and mode,
    which the release before did not name."""
    kept: dict[str, Any] = dict.fromkeys(("card_id", "cardholder_id", "programme_id", "seq", "kind"))
    kept |= dict.fromkeys(
        ("currency", "requested_minor", "created_at", "network_txn_id", "day", "mcc", "rrn")
    )
    kept |= {"tenant_id": row.tenant_id, "live": row.live} if named else dict.fromkeys(("tenant_id", "live"))
    return to._replace(**kept, id=row.id)


def holds_of(rows: list[TransactionRow]) -> list[HoldRow]:
    """The hold that each of ``rows`` names."""
    return [
        HoldRow(row.hold_id, FIRST.id, FIRST.id, row.id, 1, "held", NEXT_DAY_MS)
        for row in rows
        if row.hold_id is not None
    ]


async def written_by_all(
    postgres: PostgresBackend, write: Callable[[Journal], Awaitable[None]]
) -> list[list[dict[str, Any]]]:
    """The transactions in PostgreSQL and in the twin after ``write``."""
    found = []
    backends: tuple[Backend, ...] = (postgres, MemoryBackend())
    for backend in backends:
        journal = await backend.open("a")
        await with_card(journal)
        await write(journal)
        found.append(await backend.table("transactions"))
    return found


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("seed", range(3))
async def test_view_shows_what_owners_wrote(postgres: PostgresBackend, seed: int, named: bool) -> None:
    chance = random.Random(seed)
    opened = [some(chance, number) for number in range(ROWS)]
    changed = [change_of(row, some(chance, 0), named=named) for row in opened[: ROWS // 2]]
    lapsing = [row for row in opened if row.hold_id is not None and chance.random() < 0.3]

    async def write(journal: Journal) -> None:
        rows = Rows()
        rows.transactions, rows.holds = opened, holds_of(opened)
        await journal.commit(rows)
        rows = Rows()
        rows.changed_transactions = {row.id: row for row in changed}
        await journal.commit(rows)
        rows = Rows()
        for row in lapsing:
            rows.lapse(str(row.hold_id), row.id, NEXT_DAY_MS)
        await journal.commit(rows)

    stored, shown = await written_by_all(postgres, write)
    assert len(stored) == ROWS
    assert stored == shown


async def test_plain_approval_stores_no_value_that_the_view_supplies(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    for commands in ((spend(1),), (spend(2), spend(3))):
        await journal.commit(owner.decide(*commands))
    for row in await postgres.table("transaction_rows"):
        assert {name: row[name] for name in COMPACT} == dict.fromkeys(COMPACT)


async def test_follow_up_stores_only_what_it_changes(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    sale = spend(1)
    await journal.commit(owner.decide(sale))
    await journal.commit(
        owner.decide(present_sale(2, reference_of_id(sale.id), amount_minor=sale.amount_minor))
    )
    [row] = await postgres.table("transaction_rows")
    stored = {name for name in COMPACT if row[name] is not None}
    assert stored <= {"status", "held_minor", "cleared_minor", "updated_at", "remainder_minor"}


async def test_release_before_inserts_and_updates_through_the_view(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    await with_card(journal)
    rows = Rows()
    chance = random.Random(4)
    rows.transactions = [some(chance, number) for number in range(ROWS)]
    await journal.commit(rows)
    before = await postgres.table("transactions")
    await postgres.session.execute("CREATE TEMPORARY TABLE copied AS SELECT * FROM transactions")
    await postgres.session.execute("DELETE FROM transaction_rows")
    await postgres.session.execute("INSERT INTO transactions SELECT * FROM copied")
    assert await postgres.table("transactions") == before
    await postgres.session.execute("UPDATE transactions SET held_minor = 7, status = 'pending'")
    assert await postgres.table("transactions") == [
        row | {"held_minor": 7, "status": "pending"} for row in before
    ]
    await postgres.session.execute("DROP TABLE copied")


async def test_ids_are_unique_for_each_tenant(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    await with_card(journal)
    rows = Rows()
    rows.transactions = [some(random.Random(1), 1)] * 2
    with pytest.raises(Exception, match="transactions_pkey"):
        await journal.commit(rows)
