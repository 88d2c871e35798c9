"""The views ``journal`` and ``events`` show compact rows of any release in full, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from engine.authorization.compact_events import DERIVED_EVENTS, PAIR
from engine.decision.compact_reading import configuration_named
from engine.instant import to_datetime
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import FIRST, spend, with_card
from tests.support.engine import build
from tests.support.engine.compact import Recorded, recorded

JOURNAL_ROW = """
    INSERT INTO journal_rows VALUES ($1, $2, 1, $3, $4, 'authorize', $5, $6, $7, $8, $9, $10)
"""
TRANSACTION = """
    INSERT INTO transaction_rows (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind,
        status, currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor,
        created_at, updated_at, day, remainder_minor, mcc)
    VALUES ($1, $2, false, $3, $2, $4, $5, 'purchase', 'pending', 'EUR', 1, 0, 0, 0, 0, now(), now(), '', 0,
        '5411')
"""
CARD = """
    INSERT INTO cards VALUES ($1, $2, false, $3, $2, $2, $4, 'visa', 'EUR', '411111', '1111', 'p', 11, 2029,
        '1', 'active', NULL, '[]', true, now())
"""
EVENT = "INSERT INTO event_rows VALUES ($1, $2, false, $3, now(), NULL)"


async def store(
    backend: PostgresBackend, each: Recorded, *, configuration: bool = True, pairs: bool = False
) -> None:
    """Insert a stored row with its card, its transaction and its events. ``pairs``: two events in one row."""
    session, row = backend.session, each.row
    if configuration:
        await session.execute(
            "INSERT INTO decision_configurations VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            *each.configuration,
        )
    texts = (row.command, row.inputs, row.decision, row.reply)
    keys = (row.actor_id, row.seq, row.command_key, row.fingerprint)
    await session.execute(JOURNAL_ROW, *keys, *texts, to_datetime(row.recorded_at_ms), row.authorization_id)
    owned = (row.authorization_id, build.TENANT, row.actor_id, build.PROGRAMME, row.seq)
    await session.execute(TRANSACTION, *owned)
    await session.execute(CARD, row.actor_id, build.TENANT, build.PROGRAMME, each.account_id)
    if pairs and len(each.events) == len(DERIVED_EVENTS):
        await session.execute(EVENT, each.events[0][1], build.TENANT, PAIR)
        return
    for type_, id_, _ in each.events:
        await session.execute(EVENT, id_, build.TENANT, DERIVED_EVENTS[type_])


async def remove(backend: PostgresBackend) -> None:
    await backend.session.execute("DELETE FROM transactions; DELETE FROM cards; DELETE FROM event_rows")
    await backend.session.execute("SET session_replication_role = replica; DELETE FROM journal_rows")


@pytest.mark.parametrize("pairs", [False, True])
async def test_views_show_rows_of_any_release_in_full(postgres: PostgresBackend, pairs: bool) -> None:
    for each in recorded():
        await store(postgres, each, pairs=pairs)
        shown = await postgres.session.fetchrow("SELECT command, inputs, decision, reply FROM journal")
        assert tuple(shown or ()) == tuple(each.full)
        if '"merchant_amount"' not in each.full.command:
            found = await postgres.session.fetch("SELECT type, id::text, data FROM events")
            assert sorted(map(tuple, found)) == sorted(each.events)
        await remove(postgres)


async def test_a_missing_configuration_makes_inputs_unreadable(postgres: PostgresBackend) -> None:
    each = recorded()[0]
    await store(postgres, each, configuration=False)
    inputs = await postgres.session.fetchval("SELECT inputs FROM journal")
    assert inputs == f'{{"missing_configuration":"{configuration_named(each.row.inputs or "")}"}}'


async def test_a_configuration_is_written_once_and_never_changes(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    issued = await postgres.session.fetchval("SELECT count(*) FROM events")
    for number in (1, 2):
        await journal.commit(owner.decide(spend(number)))
    again = await postgres.open("b")
    owner.epochs = await again.take(range(256))
    owner.activate(await again.load_cards([FIRST.id]))
    await again.commit(owner.decide(spend(3)))
    assert await postgres.session.fetchval("SELECT count(*) FROM decision_configurations") == 1
    assert await postgres.session.fetchval("SELECT count(*) FROM journal_rows WHERE command LIKE '[%'") == 3
    assert await postgres.session.fetchval("SELECT count(*) FROM event_rows WHERE data IS NULL") == 3
    assert await postgres.session.fetchval("SELECT count(*) FROM events WHERE txid IS NOT NULL") == 6 + issued
    for statement in ("DELETE FROM {}", "UPDATE {} SET card = ''", "TRUNCATE {}"):
        with pytest.raises(Exception, match="append-only"):
            await postgres.session.execute(statement.format("decision_configurations"))


async def test_a_rejected_commit_leaves_its_configuration_to_the_next(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    rows: Any = owner.decide(spend(1))
    rows.journal *= 2
    with pytest.raises(Exception):  # noqa: B017, PT011 - which one is another test's subject
        await journal.commit(rows)
    assert await postgres.session.fetchval("SELECT count(*) FROM decision_configurations") == 0
    rows.journal = rows.journal[:1]
    await journal.commit(rows)
    assert await postgres.session.fetchval("SELECT count(*) FROM decision_configurations") == 1


async def test_statements_of_the_release_before_insert_into_the_views(postgres: PostgresBackend) -> None:
    each = recorded()[0]
    row, full = each.row, each.full
    await postgres.session.execute(
        JOURNAL_ROW.replace("journal_rows", "journal"),
        *(row.actor_id, row.seq, row.command_key, row.fingerprint, *full, to_datetime(row.recorded_at_ms)),
        row.authorization_id,
    )
    await postgres.session.execute(
        "INSERT INTO events (id, tenant_id, live, type, created_at, data)"
        " VALUES ($1, $2, false, 'x', now(), '{}')",
        build.an_id(1),
        build.TENANT,
    )
    shown = await postgres.session.fetchrow("SELECT command, inputs, decision, reply FROM journal_rows")
    assert tuple(shown or ()) == tuple(full)
    assert await postgres.session.fetchval("SELECT data FROM event_rows WHERE txid IS NOT NULL") == "{}"


async def test_the_commit_function_of_release_0_1_0_writes_through_the_views(
    postgres: PostgresBackend,
) -> None:
    """Since the step before migration 21 it passes everything on to ``commit_batch_v2``."""
    each = recorded()[0]
    row, full = each.row, each.full
    empty = ", ".join(["'{}'"] * 12)
    await postgres.session.execute(
        "SELECT commit_batch('a', '{}', '{}',"
        " ARRAY[($1::uuid, $2::bigint, 1, $3::bytea, $4::bytea, 'authorize', $5::text, $6::text, $7::text,"
        f" $8::text, $9::timestamptz, $10::uuid)::journal_row], {empty}, '{{}}',"
        " ARRAY[($11::uuid, $12::uuid, false, 'x', now(), '{}', NULL)::event_row], '{}', '{}', '{}', '{}',"
        " '{}', '{}')",
        *(row.actor_id, row.seq, row.command_key, row.fingerprint, *full, to_datetime(row.recorded_at_ms)),
        *(row.authorization_id, build.an_id(1), build.TENANT),
    )
    shown = await postgres.session.fetchrow("SELECT command, inputs, decision, reply FROM journal_rows")
    assert tuple(shown or ()) == tuple(full)
    assert await postgres.session.fetchval("SELECT data FROM events WHERE txid IS NOT NULL") == "{}"
