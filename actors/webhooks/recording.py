"""Records the results of attempts in batches, and retries for a limited time when the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from actors.batcher import Batcher
from actors.database import DatabaseUnavailableError
from actors.webhooks.delivery import AttemptResult
from engine.limits import CLAIM_PAUSE_SECONDS_MIN, RECORD_BATCH_MAX

TRIES_MAX: Final = 20
"""Tries to record a batch of results, up to a second apart; afterwards the attempts count as lost."""
_PAUSE_SECONDS_MIN: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 1.0

_log = structlog.get_logger(__name__)


class AttemptRecorder:
    """Calls ``record`` with batches of results, and ``done`` for each batch that was recorded or given up."""

    def __init__(
        self,
        record: Callable[[Sequence[AttemptResult]], Awaitable[None]],
        done: Callable[[Sequence[AttemptResult]], None],
    ) -> None:
        self.unrecorded = 0
        """Results that could not be recorded."""
        self._record = record
        self._done = done
        self._batcher: Batcher[AttemptResult] = Batcher(self._flush, RECORD_BATCH_MAX)
        self._stopping = False

    def add(self, result: AttemptResult) -> None:
        """Queue a result."""
        self._batcher.add((result,))

    def skip_pauses(self) -> None:
        """Make no more pauses between batches, because the dispatcher stops."""
        self._stopping = True

    async def drain(self) -> None:
        """Wait until no result is queued."""
        await self._batcher.drain()

    async def _flush(self, results: list[AttemptResult]) -> None:
        pause = _PAUSE_SECONDS_MIN
        for _ in range(TRIES_MAX):
            try:
                await self._record(results)
                break
            except DatabaseUnavailableError as failure:
                _log.info("record_waits", error=str(failure))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        else:
            self.unrecorded += len(results)
        self._done(results)
        if not self._stopping:
            await asyncio.sleep(CLAIM_PAUSE_SECONDS_MIN)
