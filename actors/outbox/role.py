"""The relay as a process of its own."""

from __future__ import annotations

from typing import Final

from actors.metrics import Figures
from actors.outbox.announcer import Announcer
from actors.outbox.backlog import Backlog
from actors.outbox.relay import Relay, relay_connection
from actors.outbox.retention import Retention, retention_connection
from actors.outbox.stream import WakeUpStream
from actors.roles import Context
from actors.warm_standby import WarmStandby

LOCK: Final = 0x7265_6C61
"""Number of the active relay's lock in the database."""


class RelayRole(WarmStandby):
    """The active relay, or its standby. Two active relays take turns (``relay``)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, LOCK, ActiveRelay)


class ActiveRelay:
    """See ``actors.roles.Role``."""

    def __init__(self, context: Context) -> None:
        dsn = context.settings.database_dsn
        self._connections = [relay_connection(dsn, f"stanchion-{use}") for use in ("relay", "backlog")]
        relaying, measuring = self._connections
        deleting = retention_connection(dsn)
        self._connections.append(deleting)
        self._stream = WakeUpStream(context.settings.redis_dsn)
        self._announcer = Announcer(self._stream)
        self.relay = Relay(relaying, self._announcer)
        self.backlog = Backlog(measuring)
        self.retention = Retention(deleting)

    async def start(self) -> None:
        self.relay.start()
        self.backlog.start()
        self.retention.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        counts, backlog = self.relay.counts, self.backlog.figures
        return {
            "stanchion_relay_events": counts.events,
            "stanchion_relay_deliveries": counts.deliveries,
            "stanchion_relay_failures": counts.failures,
            "stanchion_relay_lag_seconds": counts.lag_seconds,
            "stanchion_relay_wake_ups_dropped": self._announcer.dropped,
            "stanchion_deliveries_due": backlog.due,
            "stanchion_deliveries_due_of_one_max": backlog.due_of_one_max,
            "stanchion_rows_expired": self.retention.deleted,
        }

    async def stop(self) -> None:
        await self.relay.stop()
        await self.backlog.stop()
        await self.retention.stop()
        await self._announcer.stop()
        await self._stream.close()
        for connection in self._connections:
            connection.close()
