"""The lock by which one of two processes of a role works: an advisory lock of a database session.

The server releases the lock when the session ends: at once when the process has died, and after
``LEADER_LEASE_SECONDS`` without a statement of its holder. The latter needs nothing of the network: a machine
that has vanished or is frozen, or a proxy that keeps its connection to the server, sends no statement.
"""

from __future__ import annotations

import asyncio
from typing import Final

from actors.database import session_settings
from actors.primary import PrimaryConnection, accepts_writes, connect
from actors.sqlstates import STATEMENT_FAILURES
from engine.limits import COMMIT_TIMEOUT_MS, LEADER_CHECK_SECONDS, LEADER_LEASE_SECONDS

KEY: Final = 0x5354_616E
"""Number of the coordinators' lock: a database belongs to one installation."""
POLL_SECONDS: Final = 0.25
"""Interval between two questions of the session that waits. It must not wait inside a statement: an open
snapshot would keep the server from removing old rows."""
RETRY_SECONDS: Final = 3 * LEADER_CHECK_SECONDS
"""Pause after a lost connection. The leader loses its lock with the same server, and is the first to ask
again."""
_LEASE: Final = {
    "idle_session_timeout": f"{LEADER_LEASE_SECONDS * 1000:.0f}ms",
    # The server can wait for the client too, to send an answer; then the kernel ends the connection.
    "tcp_user_timeout": f"{LEADER_LEASE_SECONDS * 1000:.0f}ms",
}
"""Settings with which the server ends a session whose holder sends no statement."""
_TRY: Final = "SELECT pg_try_advisory_lock($1)"
"""A session that has the lock gets it once more; the end of the session releases all."""


class LeaderLock:
    """One session that has the lock, waits for it, or does not exist. The holder calls ``try_acquire`` every
    ``LEADER_CHECK_SECONDS``."""

    def __init__(self, dsn: str, key: int = KEY) -> None:
        self._dsn = dsn
        self._key = key
        self._connection: PrimaryConnection | None = None
        self._acquired = False

    @property
    def held(self) -> bool:
        """Whether this session has the lock, as far as it knows. A server that restarts forgets it."""
        return self._acquired and self._is_open()

    async def try_acquire(self) -> bool | None:
        """Whether this session has the lock now; renews its lease. ``None``: the database does not answer."""
        answered = False
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_MS / 1000):
                connection = await self._connected()
                self._acquired = bool(await connection.fetchval(_TRY, self._key))
            answered = True
        except STATEMENT_FAILURES:
            return None
        finally:
            if not answered:
                # Also after a cancellation: a statement without an answer may have got the lock.
                self.close()
        return self._acquired

    async def acquire(self) -> None:
        """Wait for the lock, also while the database is away."""
        while True:
            acquired = await self.try_acquire()
            if acquired:
                return
            await asyncio.sleep(RETRY_SECONDS if acquired is None else POLL_SECONDS)

    def close(self) -> None:
        """Give the lock up. Safe to call twice."""
        connection, self._connection, self._acquired = self._connection, None, False
        if connection is not None:
            connection.terminate()

    def _is_open(self) -> bool:
        return self._connection is not None and accepts_writes(self._connection)

    async def _connected(self) -> PrimaryConnection:
        if not self._is_open():
            self.close()
        if self._connection is None:
            seconds = COMMIT_TIMEOUT_MS / 1000
            settings = session_settings(seconds) | _LEASE
            self._connection = await connect(self._dsn, "stanchion-leader", seconds, settings)
        return self._connection
