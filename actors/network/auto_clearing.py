"""Sales that nobody clears are presented by the network itself, when their time has come.

The times stand in Postgres, so they survive restarts. Due sales are claimed in batches, and the next batch
waits for the answers of the one before: ten thousand that fall due at once go to the platform a hundred at
a time and never stand in the way of a decision.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from actors.essential import start_essential
from actors.network.acquirer_session import NotConnectedError
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection
from actors.network.exchanges import MessageTransport
from actors.network.postgres_simulation_store import original_of
from actors.network.simulated_network import SimulatedNetwork
from engine.limits import (
    CLEARING_BATCH_MAX,
    CLEARING_LEASE_SECONDS,
    CLEARING_POLL_SECONDS,
    NETWORK_TIMEOUT_MS,
)

_log = structlog.get_logger(__name__)


class AutoClearingCounts(msgspec.Struct):
    """What the clearer has done since it started."""

    cleared: int = 0


class AutoClearing:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

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
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to clear, in the background."""
        self._loop = self._loop or start_essential(self._run(), "clearing")

    async def stop(self) -> None:
        """Stops; what has been claimed and not presented becomes due again."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    async def clear_batch(self) -> int:
        """Presents the sales that are due, up to a batch of them, and waits for their answers; their
        number."""
        rows = await self._db.fetch("claim_due_sales", self._batch_max, CLEARING_LEASE_SECONDS)
        if rows:
            legs = await self._network.clear([original_of(row) for row in rows])
            self.counts.cleared += len(legs)
            if legs:
                # One that takes longer is forwarded behind the back of the next batch.
                await asyncio.wait(legs, timeout=NETWORK_TIMEOUT_MS / 1000)
        return len(rows)

    async def _run(self) -> None:
        while True:
            try:
                await self._transport.connected(self._poll_seconds)
                more = await self.clear_batch() == self._batch_max
            except (DatabaseUnavailableError, NotConnectedError) as failure:
                _log.info("clearing_waits", error=type(failure).__name__)
                more = False
            if not more:
                await asyncio.sleep(self._poll_seconds)
