"""Both journals behind one interface, for one conformance suite.

A backend opens journals, shows its tables, and can hold a commit that has passed the fence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import asyncpg

from actors.journal.contract import Journal, Rows
from actors.journal.memory import MemoryJournal, Point
from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Table
from actors.journal.postgres import PostgresJournal
from tests.support.engine.build import TENANT

WAIT_SECONDS = 60.0
TABLES = (
    "decision_configurations",
    "journal",
    "programmes",
    "cards",
    "card_replacements",
    "authorization_rules",
    "rule_matches",
    "card_usage",
    "declared_balances",
    "accounts",
    "holds",
    "tombstones",
    "transactions",
    "ledger_entries",
    "events",
    "idempotency",
    "audit_log",
)
DATABASE_COLUMNS = {"txid", "row_id"}
"""Columns that the database fills."""

HOST_SESSIONS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE application_name = 'stanchion-host' AND datname = current_database()"
)


class Backend(Protocol):
    """One store of rows, shared by all journals opened on it."""

    async def open(self, incarnation: str) -> Journal:
        """The journal of a registered host."""

    async def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table, sorted, with instants in milliseconds."""

    async def owners(self) -> dict[int, tuple[str | None, int]]:
        """Owner and epoch of each shard."""

    def commits_held(self, card_id: str) -> AbstractAsyncContextManager[None]:
        """Hold commits that write ``card_id``, after they have passed the fence."""

    async def late_renewal(self, incarnation: str, known: Mapping[int, int]) -> dict[int, int]:
        """The result of a renewal with the expected epochs ``known`` that runs after its caller timed out."""

    async def waiting(self, method: str, incarnation: str) -> None:
        """Return when the host's call of ``method`` is blocked."""


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``condition`` is true. Fails after ``WAIT_SECONDS``."""
    limit = time.monotonic() + WAIT_SECONDS
    while not await condition():
        assert time.monotonic() < limit, "timed out"
        await asyncio.sleep(0.005)


def by_text(row: dict[str, Any]) -> str:
    return repr(list(row.values()))


class MemoryBackend:
    """``MemoryStore`` with a fault that holds commits."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self._gates: dict[str, asyncio.Event] = {}
        self._calls: dict[tuple[str, str], Point] = {}

    async def open(self, incarnation: str) -> Journal:
        async def fault(point: Point, method: str, rows: Rows | None) -> None:
            self._calls[method, incarnation] = point
            if point == "during" and rows is not None:
                for card_id in rows.usage:
                    if card_id in self._gates:
                        await self._gates[card_id].wait()

        journal = MemoryJournal(self.store, incarnation, fault)
        await journal.register(incarnation)
        return journal

    async def table(self, name: str) -> list[dict[str, Any]]:
        table: Table = getattr(self.store, name)
        rows = [
            {column: value for column, value in row.items() if column not in DATABASE_COLUMNS}
            for row in table.rows.values()
        ]
        return sorted(rows, key=by_text)

    async def owners(self) -> dict[int, tuple[str | None, int]]:
        return dict(enumerate(zip(self.store.owners, self.store.epochs, strict=True)))

    @asynccontextmanager
    async def commits_held(self, card_id: str) -> AsyncIterator[None]:
        gate = self._gates[card_id] = asyncio.Event()
        yield
        del self._gates[card_id]
        gate.set()

    async def late_renewal(self, incarnation: str, known: Mapping[int, int]) -> dict[int, int]:
        epochs, renewed = await self.store.renew(incarnation, known)
        assert not renewed
        return epochs

    async def waiting(self, method: str, incarnation: str) -> None:
        async def under_way() -> bool:
            return self._calls.get((method, incarnation)) in {"before", "during"}

        await until(under_way)
        for _ in range(10):
            # After ten iterations only a lock or a gate still blocks the call.
            await asyncio.sleep(0)
        assert await under_way()


class PostgresBackend:
    """A migrated database; ``session`` is the test's own session, for queries and locks."""

    def __init__(self, url: str, session: asyncpg.Connection[Any]) -> None:
        self.url = url
        self.session = session
        self._journals: list[PostgresJournal] = []

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator[PostgresBackend]:
        """A backend on the database at ``url``. Closes its journals at the end."""
        session = await asyncpg.connect(url)
        await session.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
        backend = cls(url, session)
        try:
            yield backend
        finally:
            for journal in backend._journals:
                await journal.close()
            await session.close()

    async def open(
        self, incarnation: str, *, url: str | None = None, timeout_seconds: float = 60.0
    ) -> PostgresJournal:
        journal = PostgresJournal(url or self.url, incarnation, timeout_seconds)
        self._journals.append(journal)
        await journal.register(incarnation)
        return journal

    async def empty(self) -> None:
        """Delete all rows."""
        for journal in self._journals:
            await journal.close()
        # An abandoned commit may still run, and would end during the next test.
        await self.session.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM ({HOST_SESSIONS}) AS hosts")
        # Ledger entries are append-only by a trigger, which a replica does not fire.
        await self.session.execute("SET session_replication_role = replica")
        for table in (*TABLES, "hosts", "tenants"):
            await self.session.execute(f"DELETE FROM {'event_rows' if table == 'events' else table}")
        await self.session.execute("UPDATE shards SET epoch = 0, host = NULL")

    async def table(self, name: str) -> list[dict[str, Any]]:
        rows = await self.session.fetch(f"SELECT {await self._columns(name)} FROM {name}")
        return sorted(map(dict, rows), key=by_text)

    async def _columns(self, table: str) -> str:
        columns = await self.session.fetch(
            "SELECT attname AS name, atttypid::regtype::text AS type FROM pg_attribute"
            " WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            table,
        )
        shown = {
            "uuid": "{0}::text",
            "timestamp with time zone": "(extract(epoch FROM {0}) * 1000)::bigint AS {0}",
        }
        return ", ".join(
            shown.get(column["type"], "{0}").format(column["name"])
            for column in columns
            if column["name"] not in DATABASE_COLUMNS
        )

    async def owners(self) -> dict[int, tuple[str | None, int]]:
        rows = await self.session.fetch("SELECT shard, host, epoch FROM shards")
        return {row["shard"]: (row["host"], row["epoch"]) for row in rows}

    @asynccontextmanager
    async def commits_held(self, card_id: str) -> AsyncIterator[None]:
        holder = await asyncpg.connect(self.url)
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("SELECT 1 FROM card_usage WHERE card_id = $1 FOR UPDATE", card_id)
        try:
            yield
        finally:
            await transaction.rollback()
            await holder.close()

    async def late_renewal(self, incarnation: str, known: Mapping[int, int]) -> dict[int, int]:
        rows = await self.session.fetch(
            "SELECT * FROM renew_shards_v2($1, $2, $3)", incarnation, list(known), list(known.values())
        )
        assert not any(row["renewed"] for row in rows)
        return {row["renewed_shard"]: row["current_epoch"] for row in rows}

    async def waiting(self, method: str, incarnation: str) -> None:
        function = {"commit": "commit_batch", "take": "take_shards", "renew": "renew_shards"}[method]
        await until(lambda: self.blocked(function))

    async def blocked(self, statement: str) -> bool:
        """Whether a session whose query contains ``statement`` waits for a lock."""
        # Within a transaction the server would repeat the same snapshot of the statistics.
        await self.session.execute("SELECT pg_stat_clear_snapshot()")
        found = await self.session.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'",
            statement,
        )
        return bool(found)
