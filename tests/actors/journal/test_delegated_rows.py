"""Hosts store decisions by programmes and in stand-in compactly as soon as all readers know their form."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.journal.contract import Rows
from actors.journal.delegated_rows import without_delegated
from engine.decision.delegation import EndpointResult
from engine.programmes.stand_in import Grant
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import FIRST, spend, with_card
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import an_id, declare_balance, programme

STORED = "SELECT count(*) FROM journal_rows WHERE command LIKE '[%' AND json_array_length(inputs::json) > 8"
PAIRED = "SELECT count(*) FROM event_rows WHERE type = 'P'"
TEXTS = "SELECT command, inputs, decision, reply FROM journal_rows WHERE command_key = $1"
SHOWN_TEXTS = TEXTS.replace("journal_rows", "journal")
SHOWN_EVENTS = (
    "SELECT id::text, type, data FROM events WHERE row_id = ANY (event_rows_of($1)) AND id = ANY ($1)"
)
NAMED = "UPDATE schema_migrations SET name = $2 WHERE name = $1"
RESULTS = (
    EndpointResult("approved"),
    EndpointResult("declined"),
    EndpointResult("approved", 60),
    EndpointResult(trigger="timeout", grant=Grant("within_ceilings", an_id(77), 100, 9_000)),
    EndpointResult(trigger="timeout", grant=Grant("max_amount_exceeded", an_id(77), 100, 9_000)),
    EndpointResult(trigger="connection_error"),
)


def delegated(owner: Owner, first: int) -> Rows:
    """One batch with a decision after each of the results, on a card with a declared balance."""
    rows = Rows()
    for number, result in enumerate(RESULTS, start=first):
        owner.endpoint_result = result
        owner.add(rows, spend(number, amount_minor=100, partial_allowed=number % 2 == 0), 1_795_132_800_000)
    return rows


async def owner_of(journal: Any) -> Owner:
    owner = await with_card(journal)
    owner.config = programme(decisioning="delegated")
    declare = declare_balance(1, card_id=FIRST.id, tenant_id=FIRST.tenant_id, amount_minor=10_000)
    await journal.commit(owner.decide(declare))
    return owner


async def test_decisions_are_stored_in_full_until_the_upgrade_is_complete(postgres: PostgresBackend) -> None:
    await postgres.session.execute(NAMED, "compact_delegated_shown", "waits")
    try:
        journal = await postgres.open("a")
        owner = await owner_of(journal)
        rows = delegated(owner, 1)
        await journal.commit(rows)
        assert await postgres.session.fetchval(STORED) == 0
        assert await postgres.session.fetchval(PAIRED) == 0
    finally:
        await postgres.session.execute(NAMED, "waits", "compact_delegated_shown")
    await journal.reset()
    await journal.commit(delegated(owner, 11))
    assert await postgres.session.fetchval(STORED) == len(RESULTS)
    assert await postgres.session.fetchval(PAIRED) > 0
    for row in without_delegated(rows).journal:
        assert tuple(await postgres.session.fetchrow(TEXTS, row.command_key) or ()) == row[6:10]


async def test_views_show_what_was_stored_before_in_full(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await owner_of(journal)
    rows = delegated(owner, 31)
    full = without_delegated(rows)
    await journal.commit(rows)
    assert {msgspec.json.decode(row.decision or "")["decided_by"] for row in full.journal} == {
        "programme",
        "stand_in",
    }
    for row in full.journal:
        assert tuple(await postgres.session.fetchrow(SHOWN_TEXTS, row.command_key) or ()) == row[6:10]
    events = {(event.id, event.type, event.data) for event in full.events}
    ids = [event.id for event in full.events]
    assert {tuple(row) for row in await postgres.session.fetch(SHOWN_EVENTS, ids)} == events
    assert len(events) > len(RESULTS)


async def test_one_approval_by_a_programme_is_one_statement(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await owner_of(journal)
    owner.endpoint_result = EndpointResult("approved")
    await journal.commit(owner.decide(spend(1, amount_minor=100)))
    assert await postgres.session.fetchval(PAIRED) == 1
    assert await postgres.session.fetchval("SELECT count(*) FROM holds") == 1


def test_other_rows_stay_as_they_are() -> None:
    rows = Rows()
    assert without_delegated(rows) is rows
