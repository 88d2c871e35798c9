"""The commit of a single approval has a statement of its own. It writes and refuses what the function for all
batches writes and refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.journal import commit_arguments
from actors.journal.commit_arguments import IN_APPROVAL, RARE, approval_arguments
from actors.journal.contract import BehindError, DuplicateError, Journal, RejectedError, Rows, StaleEpochError
from actors.journal.postgres import STATEMENTS, PostgresJournal
from engine.commands import CardCommand, reference_of_id
from tests.support.actors.journal.backends import TABLES, PostgresBackend
from tests.support.actors.journal.cases import (
    FIRST,
    OTHER_SHARD,
    present_sale,
    reverse_sale,
    spend,
    with_card,
)
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import authorize, create_card, load

HOST = "host-1"
ALONE = spend(1)
OTHER = spend(3).id
WITHOUT_PARAMETER = {("journal", "epoch"), ("transactions", "cardholder_id")}
"""The epoch is that of the fence; no table has the cardholder, who is that of the card."""
Tables = dict[str, list[dict[str, Any]]]


async def tables_of(backend: PostgresBackend) -> Tables:
    return {name: await backend.table(name) for name in TABLES}


async def opened(backend: PostgresBackend) -> tuple[PostgresJournal, Owner]:
    journal = await backend.open(HOST)
    return journal, await with_card(journal)


def test_every_kind_of_row_is_in_the_statement_or_excludes_it() -> None:
    assert IN_APPROVAL | RARE | set(commit_arguments._NOT_IN_APPROVAL) == set(vars(Rows()))
    assert set(commit_arguments._NOT_IN_APPROVAL) >= {"tombstones", "entries", "idempotency", "lapsed"}


@pytest.mark.parametrize(
    ("commands", "alone"),
    [
        ((ALONE,), True),
        ((ALONE, spend(2)), False),
        ((spend(1, amount_minor=999_999_999),), False),
        ((spend(1, amount_minor=999_999_999, partial_allowed=True),), False),
        ((load(2, card_id=FIRST.id),), False),
        ((create_card(2, OTHER_SHARD, programme_id=FIRST.programme_id),), False),
    ],
    ids=["approval", "two approvals", "decline", "approval in part", "load", "new card"],
)
async def test_only_a_single_approval_has_the_statement(
    postgres: PostgresBackend, commands: tuple[CardCommand, ...], alone: bool
) -> None:
    _, owner = await opened(postgres)
    assert (approval_arguments(HOST, owner.decide(*commands)) is not None) is alone


async def test_follow_ups_of_an_approval_do_not_have_the_statement(postgres: PostgresBackend) -> None:
    journal, owner = await opened(postgres)
    await journal.commit(owner.decide(ALONE))
    reference = reference_of_id(ALONE.id)
    for follow_up in (present_sale(2, reference, amount_minor=1), reverse_sale(3, reference)):
        assert approval_arguments(HOST, owner.decide(follow_up)) is None


@pytest.mark.parametrize("name", ["journal", "holds", "transactions", "events"])
async def test_every_value_is_a_parameter_or_excludes_the_statement(
    postgres: PostgresBackend, name: str
) -> None:
    _, owner = await opened(postgres)
    rows = owner.decide(ALONE)
    [row] = getattr(rows, name)
    for field, value in row._asdict().items():
        changed = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else OTHER
        setattr(rows, name, [row._replace(**{field: changed})])
        arguments = approval_arguments(HOST, rows)
        assert arguments is None or changed in arguments or (name, field) in WITHOUT_PARAMETER, field


async def test_rows_are_those_of_the_function(
    postgres: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Tables] = []
    for arguments in (approval_arguments, lambda _host, _rows: None):
        monkeypatch.setattr("actors.journal.postgres.approval_arguments", arguments)
        journal, owner = await opened(postgres)
        # Later decisions name a configuration that is durable.
        await journal.commit(owner.decide(spend(2)))
        before = await tables_of(postgres)
        await journal.commit(owner.decide(ALONE))
        written.append(await tables_of(postgres))
        assert {name for name in TABLES if written[-1][name] != before[name]} == {
            *("journal", "card_usage", "accounts", "holds", "transactions", "events")
        }
        await postgres.empty()
        await postgres.session.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", FIRST.tenant_id)
    assert written[0] == written[1]


def without_shard(_owner: Owner, rows: Rows) -> None:
    rows.shards = {shard: epoch - 1 for shard, epoch in rows.shards.items()}


def older_usage(_owner: Owner, rows: Rows) -> None:
    rows.usage_before = {card_id: seq - 1 for card_id, seq in rows.usage_before.items()}


def older_account(_owner: Owner, rows: Rows) -> None:
    rows.accounts_before = {id_: version + 7 for id_, version in rows.accounts_before.items()}


def known_command(_owner: Owner, rows: Rows) -> None:
    rows.journal = [row._replace(command_key=FIRST.command_key) for row in rows.journal]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (without_shard, StaleEpochError),
        (older_usage, BehindError),
        (older_account, BehindError),
        (known_command, DuplicateError),
    ],
)
async def test_refused_approval_changes_nothing(
    postgres: PostgresBackend, spoil: Any, error: type[RejectedError]
) -> None:
    journal, owner = await opened(postgres)
    before = await tables_of(postgres)
    rows = owner.decide(ALONE)
    spoil(owner, rows)
    assert approval_arguments(HOST, rows) is not None
    with pytest.raises(error):
        await journal.commit(rows)
    assert await tables_of(postgres) == before


async def test_approval_waits_for_a_take_and_then_is_stale(postgres: PostgresBackend) -> None:
    journal, owner = await opened(postgres)
    before = await tables_of(postgres)
    rows = owner.decide(ALONE)
    [(shard, epoch)] = rows.shards.items()
    await postgres.open("host-2")
    taking = postgres.session.transaction()
    await taking.start()
    await postgres.session.fetch("SELECT * FROM take_shards_v2($1, $2, $3)", "host-2", [shard], [epoch])
    commit = asyncio.create_task(journal.commit(rows))
    await asyncio.wait([commit], timeout=0.5)
    assert not commit.done()
    await taking.commit()
    with pytest.raises(StaleEpochError):
        await commit
    assert await tables_of(postgres) == before


async def test_take_waits_for_an_approval(postgres: PostgresBackend) -> None:
    journal, owner = await opened(postgres)
    other: Journal = await postgres.open("host-2")
    rows = owner.decide(authorize(1, card_id=FIRST.id))
    async with postgres.commits_held(FIRST.id):
        commit = asyncio.create_task(journal.commit(rows))
        await postgres.waiting("commit", HOST)
        take = asyncio.create_task(other.take(list(rows.shards), dict(rows.shards)))
        await postgres.waiting("take", "host-2")
    await commit
    assert await take == {shard: epoch + 1 for shard, epoch in rows.shards.items()}


def test_statement_is_found_in_the_activity_of_the_server() -> None:
    assert "commit_batch" in STATEMENTS["commit_approval"][:100]
