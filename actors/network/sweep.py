"""The periodic sweep over the connections of one link.

It closes connections that are overdue, idle or drained, sends echo tests, and announces new keys of the
link's MAC. One sweep over all connections costs less than a timer for each frame.
"""

from __future__ import annotations

import asyncio

from actors.network.connection import EdgeConnection
from actors.network.connection_slots import ConnectionSlots
from actors.network.edge_counts import EdgeCounts
from actors.network.edge_times import EdgeTimes
from actors.network.links.management import NetworkManagement
from actors.network.links.rates import Rates
from actors.periodic import PeriodicTask


class Sweep:
    """Runs at least once a second between ``start`` and ``stop``. Instants are in the loop's time."""

    def __init__(
        self,
        connections: ConnectionSlots[EdgeConnection],
        management: NetworkManagement,
        counts: EdgeCounts,
        rates: Rates,
        times: EdgeTimes,
    ) -> None:
        self._connections = connections
        self._management = management
        self._counts = counts
        self._rates = rates
        self._times = times
        self.draining_since: float | None = None
        """When the link was signed off; ``None`` while it is not."""
        self._reloaded_at = asyncio.get_running_loop().time()
        self._task = PeriodicTask("edge-sweep", self._sweep, times.sweep_seconds, delay=times.sweep_seconds)

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()

    async def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        self._rates.note(now, self._counts.answers)
        for connection in list(self._connections):
            if connection.overdue(self._times.receipt_seconds):
                self._counts.cut += 1
                connection.abort()
            elif self.draining_since is not None:
                if self._has_drained(connection, now - self.draining_since):
                    connection.close()
            elif self._management.is_overdue(connection):
                connection.abort()
            elif connection.is_idle(self._times.idle_seconds, self._times.silent_seconds):
                self._counts.idle += 1
                connection.close()
            else:
                self._management.probe_silent(connection)
        self._announce_key(now)

    def _has_drained(self, connection: EdgeConnection, seconds: float) -> bool:
        """Whether ``connection``, ``seconds`` after the link was signed off, has no open message left. A peer
        need not answer the sign-off."""
        unanswered = bool(connection.asked) and seconds <= self._times.reply_seconds
        return seconds > self._times.drain_seconds or not (connection.busy or unanswered)

    def _announce_key(self, now: float) -> None:
        """Announce a new key of the link's MAC to the peer."""
        if now - self._reloaded_at < self._times.reload_seconds:
            return
        self._reloaded_at = now
        if self._management.key_to_announce():
            for connection in self._connections:
                self._management.announce_key(connection)
