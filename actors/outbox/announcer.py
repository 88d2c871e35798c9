"""Sends wake-ups to Redis in the background: a hanging Redis must not delay the relay's next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from actors.batcher import Batcher
from actors.outbox.stream import StreamUnavailableError, WakeUp
from engine.limits import REDIS_TIMEOUT_SECONDS, WAKE_UPS_AT_ONCE_MAX, WAKE_UPS_WAITING_MAX

RETRY_PAUSE_SECONDS: Final = 0.25
"""Pause after a failure, so that an unavailable Redis is not called for every batch."""


class WakeUpSink(Protocol):
    """See ``actors.outbox.stream.WakeUpStream``."""

    async def add(self, wake_ups: Sequence[WakeUp]) -> None: ...


class Announcer:
    """Wake-ups that Redis does not accept are dropped and counted; the dispatchers' sweep finds their
    deliveries."""

    def __init__(self, stream: WakeUpSink) -> None:
        self._stream = stream
        self._batcher: Batcher[WakeUp] = Batcher(self._add, WAKE_UPS_AT_ONCE_MAX)
        self._waiting = 0
        self.dropped = 0

    def announce(self, wake_ups: Sequence[WakeUp]) -> None:
        """Queue ``wake_ups`` for the stream."""
        for first in range(0, len(wake_ups), WAKE_UPS_AT_ONCE_MAX):
            part = wake_ups[first : first + WAKE_UPS_AT_ONCE_MAX]
            if self._waiting + len(part) > WAKE_UPS_WAITING_MAX:
                self.dropped += len(part)
            else:
                self._waiting += len(part)
                self._batcher.add(part)

    async def stop(self) -> None:
        """Stop after one short attempt to send queued wake-ups."""
        try:
            async with asyncio.timeout(REDIS_TIMEOUT_SECONDS):
                await self._batcher.drain()
        except TimeoutError:
            pass

    async def _add(self, wake_ups: list[WakeUp]) -> None:
        try:
            await self._stream.add(wake_ups)
        except StreamUnavailableError:
            self.dropped += len(wake_ups)
            await asyncio.sleep(RETRY_PAUSE_SECONDS)
        finally:
            self._waiting -= len(wake_ups)
