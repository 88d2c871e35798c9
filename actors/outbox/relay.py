"""The relay: it turns committed events into deliveries, without gaps, and wakes the dispatchers.

One function of the database (``relay_events``) takes the next events in transaction order, writes a delivery
for each subscribed endpoint, and advances the relay's position, in one transaction. Batches are atomic: a
crashed relay leaves none half done. Two relays at once take turns: each locks the row of the position.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
import structlog

from actors.database import ORDERED_INDEX_PLANS, DbConnection, read_statements
from actors.outbox.announcer import Announcer
from actors.outbox.stream import WakeUp
from actors.periodic import PeriodicTask
from engine.limits import RELAY_BATCH_MAX, RELAY_BUSY_SECONDS, RELAY_IDLE_SECONDS, RELAY_TIMEOUT_MS

_SQL: Final = read_statements(Path(__file__).parent / "sql")
_log = structlog.get_logger(__name__)


class RelayCounts(msgspec.Struct):
    """Counters since the relay started, and its lag."""

    events: int = 0
    deliveries: int = 0
    failures: int = 0
    lag_seconds: float = 0.0
    """Age of the oldest committed event without deliveries."""


class Relay:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(
        self, connection: DbConnection, announcer: Announcer, *, batch_max: int = RELAY_BATCH_MAX
    ) -> None:
        self.counts = RelayCounts()
        self._connection = connection
        self._announcer = announcer
        self._batch_max = batch_max
        self._adopted = False
        # A batch that is cancelled commits completely or not at all.
        self._task = PeriodicTask("relay", self._step, RELAY_IDLE_SECONDS, tolerated=(Exception,))
        self.start, self.stop = self._task.start, self._task.stop

    async def relay_batch(self) -> int:
        """Turn the next events into deliveries; returns the number of events. Raises
        ``DatabaseUnavailableError`` when the outcome is unknown."""
        (row,) = await self._connection.fetch("relay_events", self._batch_max)
        wake_ups = [
            WakeUp(delivery_id, endpoint_id)
            for delivery_id, endpoint_id in zip(
                row["delivery_ids"] or (), row["endpoint_ids"] or (), strict=True
            )
        ]
        relayed: int = row["relayed"]
        self.counts.events += relayed
        self.counts.deliveries += len(wake_ups)
        self.counts.lag_seconds = row["lag_seconds"]
        self._announcer.announce(wake_ups)
        return relayed

    async def adopt(self) -> int:
        """Assign positions to events that were restored from another server's dump; returns their number."""
        (row,) = await self._connection.fetch("adopt_restored_events")
        adopted: int = row["adopted"]
        if adopted:
            _log.warning("restored_events_adopted", events=adopted)
        return adopted

    async def _step(self) -> float:
        began = monotonic()
        try:
            if not self._adopted:
                await self.adopt()
                self._adopted = True
            relayed = await self.relay_batch()
        except Exception:
            self.counts.failures += 1
            raise
        return self._pause_after(relayed, monotonic() - began)

    def _pause_after(self, relayed: int, seconds: float) -> float:
        if relayed >= self._batch_max:
            # During a backlog, decisions keep half of the database's time.
            return seconds
        return RELAY_BUSY_SECONDS if relayed else RELAY_IDLE_SECONDS


def relay_connection(dsn: str, name: str) -> DbConnection:
    """A connection for the relay's statements; ``name`` is its application name in the database."""
    return DbConnection(dsn, name, _SQL, timeout_ms=RELAY_TIMEOUT_MS, session=ORDERED_INDEX_PLANS)
