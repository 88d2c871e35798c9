"""The benchmark's publisher: it writes events as their causes do, and asks what is left to be delivered.

    python -m ops.bench.publisher VAR

Events are written straight into the outbox, because causing as many would keep the machine busy with
decisions.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop

from ops.bench.installation import settings_of
from ops.bench.pipe import serve

TYPE: Final = "card_product.created"
"""No load of a benchmark causes it."""
TICK_SECONDS: Final = 0.02
_INSERT: Final = """
    INSERT INTO events (id, tenant_id, live, type, created_at, data)
    SELECT time_ordered_id(now()), tenant_id, false, $1, clock_timestamp(),
        json_build_object('id', gen_random_uuid(), 'name', 'Everyday', 'network', 'visa', 'currency', 'EUR',
            'form_factor', 'virtual', 'iin', '45600000', 'status', 'active', 'number', n)
    FROM (SELECT DISTINCT tenant_id FROM webhook_endpoints) tenant, generate_series(1, $2::int) n
"""
_MEGABYTE: Final = "SELECT pg_logical_emit_message(false, 'benchmark', repeat('x', 1000000))"
_LEFT: Final = """
    SELECT (SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts = 0)
        + (SELECT count(*) FROM events e, relay_progress p WHERE e.txid >= p.txid)
"""


class Publisher:
    """One connection that writes, and one that asks."""

    def __init__(
        self, writing: asyncpg.Connection[asyncpg.Record], asking: asyncpg.Connection[asyncpg.Record]
    ) -> None:
        self._writing = writing
        self._asking = asking
        self._pacing: asyncio.Task[int] | None = None
        self._running = False

    async def use_log(self, megabytes: int) -> None:
        """Write so much into the database's log, and have it used again: in its first hours an installation
        makes every new segment of its log, later it has them."""
        for _ in range(megabytes):
            await self._writing.execute(_MEGABYTE)
        await self._writing.execute("CHECKPOINT")

    async def publish(self, count: int) -> None:
        """``count`` events of each tenant that has an endpoint, in one transaction."""
        await self._writing.execute(_INSERT, TYPE, count)

    async def start(self, per_second: float) -> None:
        """Begin to publish so many events of each tenant a second."""
        self._running = True
        self._pacing = asyncio.create_task(self._pace(per_second))

    async def stop(self) -> int:
        """End it; how many events of each tenant there were."""
        assert self._pacing is not None, "started before"
        self._running = False
        return await self._pacing

    async def left(self) -> int:
        """Deliveries that have not been tried, and events that are no deliveries yet."""
        left: int = await self._asking.fetchval(_LEFT)
        return left

    async def _pace(self, per_second: float) -> int:
        begin = time.monotonic()
        published = 0
        while self._running:
            due = int((time.monotonic() - begin) * per_second) - published
            if due:
                await self.publish(due)
                published += due
            await asyncio.sleep(TICK_SECONDS)
        return published


async def _main(var_dir: Path) -> None:
    dsn = settings_of(var_dir).database_dsn
    connections: list[Any] = [await asyncpg.connect(dsn) for _ in range(2)]
    publisher = Publisher(*connections)
    await serve({name: getattr(publisher, name) for name in ("use_log", "publish", "start", "stop", "left")})
    for connection in connections:
        await connection.close(timeout=10)


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1])))
