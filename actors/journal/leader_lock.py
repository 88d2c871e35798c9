"""The lock by which one of two coordinators leads: an advisory lock of a database session.

The server gives the lock to the next session as soon as it sees the end of the holder's connection: at once
when the process has died, after three seconds when its machine has vanished.
"""

from __future__ import annotations

import asyncio
from typing import Final

from actors.database import session_settings
from actors.primary import PrimaryConnection, accepts_writes, connect
from actors.sqlstates import STATEMENT_FAILURES
from engine.limits import COMMIT_TIMEOUT_MS, LEADER_CHECK_SECONDS

KEY: Final = 0x5354_616E
"""Number of the lock: a database belongs to one installation."""
WAIT_SECONDS: Final = 3600.0
"""Time limit of one statement that waits for the lock; it is then sent again."""
RETRY_SECONDS: Final = 3 * LEADER_CHECK_SECONDS
"""Pause after a lost connection. The leader loses its lock with the same server, and is the first to ask
again."""
_VANISHED: Final = {
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
}
"""Settings with which the server notices within three seconds that a client's machine has vanished."""
_TRY: Final = "SELECT pg_try_advisory_lock($1)"
_WAIT: Final = "SELECT pg_advisory_lock($1) IS NOT NULL"


class LeaderLock:
    """One session that has the lock, waits for it, or does not exist."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: PrimaryConnection | None = None
        self._acquired = False

    @property
    def held(self) -> bool:
        """Whether this session has the lock. A server that restarts forgets it."""
        connection = self._connection
        return self._acquired and connection is not None and accepts_writes(connection)

    async def try_acquire(self) -> bool | None:
        """Whether this session has the lock now. ``None``: the database does not answer."""
        return await self._ask(_TRY, COMMIT_TIMEOUT_MS / 1000)

    async def acquire(self) -> None:
        """Wait for the lock, also while the database is away."""
        while not await self._ask(_WAIT, WAIT_SECONDS):
            await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        """Give the lock up. Safe to call twice."""
        connection, self._connection, self._acquired = self._connection, None, False
        if connection is not None:
            connection.terminate()

    async def _ask(self, statement: str, seconds: float) -> bool | None:
        if self.held:
            return True
        self.close()
        try:
            async with asyncio.timeout(seconds):
                self._connection = await self._connect()
                self._acquired = bool(await self._connection.fetchval(statement, KEY))
        except STATEMENT_FAILURES:
            return None
        finally:
            # Also after a cancellation: a statement without an answer may still get the lock.
            if not self._acquired:
                self.close()
        return self._acquired

    async def _connect(self) -> PrimaryConnection:
        settings = session_settings(WAIT_SECONDS) | _VANISHED
        return await connect(self._dsn, "stanchion-leader", COMMIT_TIMEOUT_MS / 1000, settings)
