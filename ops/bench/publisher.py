"""The benchmark's publisher: it writes events into the outbox and counts undelivered ones.

    python -m ops.bench.publisher VAR

Events are inserted directly, because causing as many events by decisions would keep the machine busy.
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
"""An event type that no load of a benchmark causes."""
TICK_SECONDS: Final = 0.02
_INSERT: Final = """
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
    SELECT time_ordered_id(now()), tenant_id, false, $1, clock_timestamp(),
        json_build_object('id', gen_random_uuid(), 'name', 'Everyday', 'network', 'visa', 'currency', 'EUR',
            'form_factor', 'virtual', 'iin', '45600000', 'status', 'active', 'number', n)
    FROM (SELECT DISTINCT tenant_id FROM webhook_endpoints) tenant, generate_series(1, $2::int) n
"""
_MEGABYTE: Final = "SELECT pg_logical_emit_message(false, 'benchmark', repeat('x', 1000000))"
_LEFT: Final = """
    SELECT (SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts = 0)
        + (SELECT count(*) FROM event_rows e, relay_progress p WHERE e.txid >= p.txid)
"""


class Publisher:
    """Two connections: one writes events, one counts."""

    def __init__(
        self, writing: asyncpg.Connection[asyncpg.Record], asking: asyncpg.Connection[asyncpg.Record]
    ) -> None:
        self._writing = writing
        self._asking = asking
        self._pacing: asyncio.Task[int] | None = None
        self._running = False

    async def use_log(self, megabytes: int) -> None:
        """Write this much write-ahead log and recycle it: a new installation creates every log segment while
        commits wait, an older one reuses segments."""
        for _ in range(megabytes):
            await self._writing.execute(_MEGABYTE)
        await self._writing.execute("CHECKPOINT")

    async def publish(self, count: int) -> None:
        """Publish ``count`` events for each tenant with an endpoint, in one transaction."""
        await self._writing.execute(_INSERT, TYPE, count)

    async def start(self, per_second: float) -> None:
        """Start to publish ``per_second`` events a second for each tenant."""
        self._running = True
        self._pacing = asyncio.create_task(self._pace(per_second))

    async def stop(self) -> int:
        """Stop publishing; returns the number of events for each tenant."""
        assert self._pacing is not None, "started before"
        self._running = False
        return await self._pacing

    async def left(self) -> int:
        """The number of deliveries without an attempt, plus events without deliveries."""
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
