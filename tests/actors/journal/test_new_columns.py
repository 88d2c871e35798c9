"""Tables gain columns while processes of this release run: commits, reads and the relay continue."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from actors.clock import SystemClock
from actors.database import DbConnection
from actors.network.database import SQL as NETWORK_SQL
from actors.outbox.announcer import Announcer
from actors.outbox.relay import Relay, relay_connection
from actors.outbox.retention import Retention, retention_connection
from actors.outbox.stream import WakeUpStream
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import FIRST, act_row, idempotency_row, spend, with_card
from tests.support.engine.build import change_programme, create_programme, declare_balance, load

HOT = (
    "journal_rows",
    "programmes",
    "cards",
    "card_usage",
    "declared_balances",
    "accounts",
    "holds",
    "tombstones",
    "transaction_rows",
    "ledger_entries",
    "event_rows",
    "idempotency",
    "outages",
    "stand_ins",
    "audit_log",
    "hosts",
    "shards",
)
OUTBOX = ("event_rows", "relay_progress", "deliveries", "delivery_attempts", "webhook_endpoints")
ADDED = "added_while_running"


@pytest.fixture
def journal_url(database_url: str) -> str:
    """A database for one test, which changes its tables."""
    return database_url


async def add_column(url: str, table: str) -> None:
    """Add a column as a migration does: with a default for existing rows and for rows of older processes."""
    session = await asyncpg.connect(url)
    await session.execute(f"ALTER TABLE {table} ADD COLUMN {ADDED} text NOT NULL DEFAULT 'default'")
    await session.close()


async def test_commits_go_on_while_every_hot_table_gains_a_column(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    programme = create_programme(2)
    await journal.commit(owner.decide(programme))
    for number, table in enumerate(HOT, 1):
        committing = asyncio.create_task(
            journal.commit(owner.decide(spend(number, amount_minor=1), load(500 + number, card_id=FIRST.id)))
        )
        await add_column(postgres.url, table)
        await committing
        rows = owner.decide(
            spend(100 + number, amount_minor=1),
            declare_balance(200 + number, card_id=FIRST.id),
            change_programme(300 + number, programme_id=programme.config.id, name=f"name {number}"),
        )
        rows.idempotency.append(idempotency_row(number, SystemClock().now_ms()))
        rows.acts.append(act_row(number))
        await journal.commit(rows)
        assert (await journal.load_cards([FIRST.id])).cards == owner.cards
        assert await journal.find([spend(number).command_key])
        owner.epochs = await journal.renew(range(256), owner.epochs)
    session = await asyncpg.connect(postgres.url)
    assert await session.fetchval(f"SELECT count(*) FROM journal_rows WHERE {ADDED} = 'default'") > len(HOT)
    await session.close()


@pytest.mark.parametrize("table", OUTBOX)
async def test_relay_goes_on_when_a_table_gains_a_column(
    postgres: PostgresBackend, redis_url: str, table: str
) -> None:
    stream = WakeUpStream(redis_url)
    announcer = Announcer(stream)
    connection, deleting = relay_connection(postgres.url, "relay"), retention_connection(postgres.url)
    relay, retention = Relay(connection, announcer), Retention(deleting)
    await relay.adopt()
    await relay.relay_batch()
    await retention.step()
    await add_column(postgres.url, table)
    await relay.adopt()
    await relay.relay_batch()
    await retention.step()
    await announcer.stop()
    await stream.close()
    connection.close()
    deleting.close()


@pytest.mark.parametrize("table", ["simulations", "stan_blocks", "clearing_schedule", "cards", "pans"])
async def test_simulated_network_goes_on_when_a_table_gains_a_column(
    postgres: PostgresBackend, table: str
) -> None:
    connection = DbConnection(postgres.url, "network", NETWORK_SQL)
    before = await connection.fetch("take_stans", "1", 10)
    await connection.fetch("find_unanswered", 24)
    await add_column(postgres.url, table)
    assert (await connection.fetch("take_stans", "1", 10))[0]["first"] > before[0]["first"]
    await connection.fetch("find_unanswered", 24)
    connection.close()
