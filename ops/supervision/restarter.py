"""Starting an embedded server again whenever it has ended by itself, with a back-off and for as long as it
takes.

A server that cannot run now, because its disk is full or the machine has no memory, can run later; the
installation refuses meanwhile and must not end because of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from ops.embedded.process import ServerError

PAUSE_SECONDS_MIN: Final = 0.25
PAUSE_SECONDS_MAX: Final = 2.0
"""Pauses between two starts, doubling; the longest leaves time to recover within 5 s of a cured cause."""
STABLE_SECONDS: Final = 10.0
"""A server that has run for so long begins again with the shortest pause."""


class RestartableServer(Protocol):
    """An embedded server; ``revive`` as ``ops.embedded.server.EmbeddedServer`` has it."""

    def running(self) -> bool: ...
    def revive(self) -> bool: ...


class ServerRestarter:
    """Watches one server that has been started. ``monotonic`` is in seconds."""

    def __init__(self, server: RestartableServer, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._monotonic = monotonic
        self._attempts = 0
        self._attempted_at = 0.0

    def step(self) -> bool:
        """Start the server again if it has ended and its pause is over. Returns whether this was the first
        attempt of a series, which is worth telling."""
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
            # The same causes can keep the start itself from being made; it is an attempt like others.
            pass
        self._attempted_at = now
        self._attempts += 1
        return self._attempts == 1

    def _pause_seconds(self) -> float:
        # The exponent is bounded: a server may be away for weeks.
        return min(PAUSE_SECONDS_MIN * 2.0 ** min(self._attempts - 1, 10), PAUSE_SECONDS_MAX)
