"""Writes tenants, endpoints and events to a test's database, and reads deliveries from it."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg

from actors.ids import new_id
from engine.instant import to_datetime

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
NOW_MS = 1_790_000_000_000


class EventDatabase:
    """A database in which tests create tenants, endpoints and events."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def tenant(self) -> str:
        """A new tenant."""
        tenant_id = new_id()
        await self.connection.execute(
            "INSERT INTO tenants (id, name) VALUES ($1::uuid, $1::uuid::text)", tenant_id
        )
        return tenant_id

    async def endpoint(
        self,
        tenant_id: str,
        *event_types: str,
        live: bool = False,
        status: str = "enabled",
        url: str = "https://receiver.test/hook",
        secret: bytes = b"sealed",
    ) -> str:
        """A new endpoint; without types it subscribes to all of them."""
        id_ = new_id()
        await self.connection.execute(
            "INSERT INTO webhook_endpoints"
            " (id, tenant_id, live, url, event_types, status, secret_sealed, created_at, updated_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, now(), now())",
            id_,
            tenant_id,
            live,
            url,
            list(event_types) or ["*"],
            status,
            secret,
        )
        return id_

    async def event(
        self,
        tenant_id: str,
        type_: str = "card.created",
        *,
        live: bool = False,
        data: str = "{}",
        on: Connection | None = None,
    ) -> str:
        """A new event, in the open transaction of connection ``on`` if given."""
        id_ = new_id()
        await (on or self.connection).execute(
            "INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)"
            " VALUES ($1, $2, $3, $4, $5, $6)",
            id_,
            tenant_id,
            live,
            type_,
            to_datetime(NOW_MS),
            data,
        )
        return id_

    async def events(self, tenant_id: str, count: int, type_: str = "card.created") -> None:
        """``count`` new events in one transaction."""
        await self.connection.execute(
            "INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)"
            " SELECT time_ordered_id(now()), $1, false, $2, now(), '{\"n\":' || n || '}'"
            " FROM generate_series(1, $3::int) n",
            tenant_id,
            type_,
            count,
        )

    async def deliveries(self) -> list[tuple[str, str]]:
        """Event and endpoint of every delivery, in the order of their ids."""
        rows = await self.connection.fetch(
            "SELECT event_id::text, endpoint_id::text FROM deliveries ORDER BY id"
        )
        return [(row["event_id"], row["endpoint_id"]) for row in rows]
