"""Rows are deleted in small steps after their retention period, and not earlier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from actors.ids import new_id
from actors.outbox import retention as retention_module
from actors.outbox.retention import Retention, retention_connection
from tests.support.actors.outbox.database import Connection, EventDatabase
from tests.support.actors.outbox.waiting import eventually

TABLES = (
    "events",
    "deliveries",
    "delivery_attempts",
    "idempotency",
    "idempotency_claims",
    "access_tokens",
    "tombstones",
    "rule_matches",
)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def retention(database_url: str) -> AsyncIterator[Retention]:
    connection = retention_connection(database_url)
    retention = Retention(connection, rows_max=10)
    yield retention
    await retention.stop()
    await retention.stop()
    connection.close()


async def fill(connection: Connection, age: str, number: int) -> None:
    """Write ``number`` rows of age ``age`` to each table."""
    database = EventDatabase(connection)
    tenant_id = await database.tenant()
    endpoint_id = await database.endpoint(tenant_id)
    client = new_id()
    await connection.execute(
        "INSERT INTO clients (id, tenant_id, client_id, secret_digest, mode, role, scopes)"
        " VALUES ($1::uuid, $2::uuid, $1::uuid::text, '\\x00', 'test', 'admin', '{}')",
        client,
        tenant_id,
    )
    for _ in range(number):
        event_id, delivery_id = new_id(), new_id()
        at = f"now() - interval '{age}'"
        await connection.execute(
            f"INSERT INTO events (id, tenant_id, live, type, created_at, data)"
            f" VALUES ($1::uuid, $2::uuid, false, 'card.created', {at}, '{{}}')",
            event_id,
            tenant_id,
        )
        await connection.execute(
            f"INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, state, created_at)"
            f" VALUES ($1::uuid, $2::uuid, false, $3::uuid, $4::uuid, 'failed', {at})",
            delivery_id,
            tenant_id,
            event_id,
            endpoint_id,
        )
        await connection.execute(
            "INSERT INTO delivery_attempts VALUES ($1::uuid, 1, now(), 1, 500, NULL)", delivery_id
        )
        await connection.execute(
            f"INSERT INTO idempotency (key_digest, fingerprint, status, body, created_at)"
            f" VALUES ($1, '\\x00', 200, '\\x00', {at})",
            delivery_id.encode(),
        )
        await connection.execute(
            f"INSERT INTO idempotency_claims (key_digest, fingerprint, claimed_at, lease_until)"
            f" VALUES ($1, '\\x00', {at}, {at})",
            delivery_id.encode(),
        )
        await connection.execute(
            f"INSERT INTO access_tokens (token_digest, client, scopes, expires_at)"
            f" VALUES ($1, $2::uuid, '{{}}', {at})",
            delivery_id.encode(),
            client,
        )
        await connection.execute(
            f"INSERT INTO tombstones (card_id, reference, recorded_at) VALUES ($1::uuid, 'n:1', {at})",
            delivery_id,
        )
        await connection.execute(
            f"INSERT INTO rule_matches (rule_id, decision_id, version, shadow, authorization_id, card_id,"
            f" day, decided, amount_minor, currency, mcc, country, decided_at)"
            f" VALUES ($1::uuid, $2::uuid, 1, true, $2::uuid, $2::uuid, '2026-11-23', 'approved', 1, 'EUR',"
            f" '7995', 'IE', {at})",
            event_id,
            delivery_id,
        )


async def counts(connection: Connection) -> dict[str, int]:
    return {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES}


@pytest.mark.parametrize(
    ("age", "deleted"),
    [
        ("23 hours", set()),
        ("25 hours", {"access_tokens"}),
        ("49 hours", {"access_tokens", "idempotency", "idempotency_claims"}),
        ("30 days 23 hours", {"access_tokens", "idempotency", "idempotency_claims"}),
        ("31 days 1 hour", {*TABLES} - {"rule_matches"}),
        ("399 days 23 hours", {*TABLES} - {"rule_matches"}),
        ("400 days 1 hour", {*TABLES}),
    ],
)
async def test_each_kind_of_row_is_deleted_at_its_age(
    connection: Connection, retention: Retention, age: str, deleted: set[str]
) -> None:
    await fill(connection, age, 2)
    await fill(connection, "1 hour", 3)
    assert not await retention.step()
    assert await counts(connection) == {table: 3 if table in deleted else 5 for table in TABLES}


async def test_expired_rows_are_deleted_in_steps_until_none_is_left(
    connection: Connection, retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "RETENTION_BUSY_SECONDS", 0.0)
    await fill(connection, "401 days", 25)
    assert await retention.step()
    assert set((await counts(connection)).values()) == {15}
    retention.start()
    await eventually(lambda: retention.deleted == 6 * 25)
    assert set((await counts(connection)).values()) == {0}


async def test_sweep_is_retried_after_its_connection_is_lost(
    connection: Connection, database_url: str
) -> None:
    deleting = retention_connection(database_url)
    retention = Retention(deleting, seconds=0.01)
    await fill(connection, "40 days", 1)
    await retention.step()
    await fill(connection, "40 days", 1)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'stanchion-retention'"
    )
    retention.start()
    await eventually(lambda: retention.deleted == 10)
    await retention.stop()
    deleting.close()


async def test_stop_before_start_is_harmless(retention: Retention) -> None:
    await retention.stop()
    await asyncio.sleep(0)
    assert retention.deleted == 0


@pytest.mark.parametrize("days", [0, 500])
async def test_rows_are_deleted_only_when_too_old_by_both_clocks(
    connection: Connection, database_url: str, days: int
) -> None:
    """The rows are old by the database's clock; the clock of the process is right or ``days`` behind."""
    await fill(connection, "500 days", 3)
    deleting = retention_connection(database_url)
    retention = Retention(deleting, now=lambda: datetime.now(UTC) - timedelta(days=days))
    await retention.step()
    deleting.close()
    assert retention.deleted == (0 if days else 6 * 3)


async def test_delivery_scheduled_by_a_wrong_clock_becomes_due(
    connection: Connection, retention: Retention
) -> None:
    await fill(connection, "1 hour", 2)
    await connection.execute(
        "UPDATE deliveries SET state = 'pending', next_attempt_at = now() + interval '23 hours'"
    )
    first = await connection.fetchval(
        "UPDATE deliveries SET next_attempt_at = now() + interval '400 days'"
        " WHERE id = (SELECT id FROM deliveries LIMIT 1) RETURNING id"
    )
    await retention.step()
    due = await connection.fetch("SELECT id FROM deliveries WHERE next_attempt_at <= now()")
    assert [row["id"] for row in due] == [first]
