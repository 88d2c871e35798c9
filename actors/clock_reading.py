"""Reads the database's clock for ``DatabaseClock``, regularly and in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from actors.clock import DatabaseClock
from engine.limits import CLOCK_REFUSED_SECONDS, CLOCK_SECONDS

_log = structlog.get_logger(__name__)


class ClockReader:
    """``step`` is that of a ``PeriodicTask``."""

    def __init__(self, clock: DatabaseClock, read: Callable[[], Awaitable[int]]) -> None:
        """``read`` returns the database's clock in milliseconds since the epoch."""
        self._clock = clock
        self._read = read

    async def step(self) -> float:
        """Read the clock; returns the seconds until the next reading. Raises the errors of ``read``."""
        before, asked = self._clock.refusal, self._clock.monotonic()
        self._clock.set(await self._read(), asked, self._clock.monotonic())
        refusal = self._clock.refusal
        if refusal is not None:
            _log.error("clock_refused", reason=refusal)
        elif before is not None:
            _log.warning("clock_trusted_again")
        return CLOCK_SECONDS if refusal is None else CLOCK_REFUSED_SECONDS
