"""Restarts an embedded server that has ended unexpectedly, with exponential back-off and without a limit of
attempts.

A server that cannot run now, because the disk is full or memory is short, may run later. Until then the
installation refuses requests, but keeps running.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from ops.embedded.process import ServerError

PAUSE_SECONDS_MIN: Final = 0.25
PAUSE_SECONDS_MAX: Final = 2.0
"""Back-off between two starts, doubling; the maximum permits recovery within 5 s after the cause is gone."""
STABLE_SECONDS: Final = 10.0
"""After this time without a failure, the back-off begins again at its minimum."""


class RestartableServer(Protocol):
    """An embedded server; see ``ops.embedded.server.EmbeddedServer``."""

    def running(self) -> bool: ...
    def revive(self) -> bool: ...


class ServerRestarter:
    """Watches one server that has been started. ``monotonic`` returns seconds."""

    def __init__(self, server: RestartableServer, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._monotonic = monotonic
        self._attempts = 0
        self._attempted_at = 0.0

    def step(self) -> bool:
        """Restart the server if it has ended and its back-off is over. Returns whether this is the first
        attempt of a series, which callers report."""
        now = self._monotonic()
        if self._server.running():
            if now - self._attempted_at > STABLE_SECONDS:
                self._attempts = 0
            return False
        if self._attempts and now - self._attempted_at < self._pause_seconds():
            return False
        try:
            if not self._server.revive():
                return False
        except (OSError, ServerError):
            # The start itself can fail for the same reasons; that counts as an attempt.
            pass
        self._attempted_at = now
        self._attempts += 1
        return self._attempts == 1

    def _pause_seconds(self) -> float:
        # The exponent is bounded: a server may be down for weeks.
        return min(PAUSE_SECONDS_MIN * 2.0 ** min(self._attempts - 1, 10), PAUSE_SECONDS_MAX)
