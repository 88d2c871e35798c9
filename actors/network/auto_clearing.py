"""Automatic clearing: the simulated network presents each approved sale once its clearing time is reached.

The schedule is a table, so it survives restarts. Each step claims one batch of due sales and waits for the
answers: ten thousand sales that fall due at once reach the platform in batches of ``CLEARING_BATCH_MAX`` and
do not delay its decisions.
"""

from __future__ import annotations

import asyncio

import msgspec

from actors.network.acquirer_session import NotConnectedError
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection
from actors.network.message_flows import MessageTransport
from actors.network.simulated_network import SimulatedNetwork
from actors.network.simulation_rows import original_of
from actors.periodic import PeriodicTask
from engine.limits import (
    CLEARING_BATCH_MAX,
    CLEARING_LEASE_SECONDS,
    CLEARING_POLL_SECONDS,
    NETWORK_TIMEOUT_MS,
)


class AutoClearingCounts(msgspec.Struct):
    """Totals since the start."""

    cleared: int = 0


class AutoClearing:
    """Claims and presents due sales periodically. ``start`` and ``stop`` are safe to call twice."""

    def __init__(
        self,
        network: SimulatedNetwork,
        transport: MessageTransport,
        db: NetworkDbConnection,
        *,
        batch_max: int = CLEARING_BATCH_MAX,
        poll_seconds: float = CLEARING_POLL_SECONDS,
    ) -> None:
        self.counts = AutoClearingCounts()
        self._network = network
        self._transport = transport
        self._db = db
        self._batch_max = batch_max
        self._poll_seconds = poll_seconds
        self._task = PeriodicTask(
            "auto-clearing", self._step, poll_seconds, tolerated=(DatabaseUnavailableError,)
        )

    def start(self) -> None:
        """Clear periodically, in the background."""
        self._task.start()

    async def stop(self) -> None:
        """Stop. Sales that were claimed and not presented become due again after their lease."""
        await self._task.stop()

    async def clear_batch(self) -> int:
        """Present up to ``batch_max`` due sales and wait for the answers. Returns the number of claimed
        sales. Raises ``DatabaseUnavailableError``."""
        rows = await self._db.fetch("claim_due_sales", self._batch_max, CLEARING_LEASE_SECONDS)
        if rows:
            flows = await self._network.clear([original_of(row) for row in rows])
            self.counts.cleared += len(flows)
            if flows:
                # A presentment that takes longer is forwarded while the next batch runs.
                await asyncio.wait(flows, timeout=NETWORK_TIMEOUT_MS / 1000)
        return len(rows)

    async def _step(self) -> float | None:
        """Clear one batch. Returns 0, for an immediate next step, if the batch was full."""
        try:
            await self._transport.connected(self._poll_seconds)
        except NotConnectedError:
            return None
        return 0.0 if await self.clear_batch() == self._batch_max else None
