"""Connections to PostgreSQL. ``DbConnection`` runs one statement at a time, each with a time limit.

Roles that work in batches need no pool. A connection that fails or exceeds its time is terminated, not
closed: closing a connection to a frozen server can take forever. Connections are made only to the primary
(``actors.primary``), and are dropped when their server is not the primary any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from actors.primary import PrimaryConnection, accepts_writes, connect
from actors.sqlstates import STATEMENT_FAILURES
from engine.limits import CLIENT_CHECK_MS, COMMIT_TIMEOUT_MS, IDLE_IN_TRANSACTION_MS, LOCK_WAIT_PERCENT

Result = TypeVar("Result")

INDEX_PLANS: Final[dict[str, str]] = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""Planner settings of sessions whose statements find all rows by index. The plan of a prepared statement
lasts as long as its connection: it must suit large tables, even if the tables were small when it was made."""
ORDERED_INDEX_PLANS: Final[dict[str, str]] = INDEX_PLANS | {"enable_bitmapscan": "off"}
"""``INDEX_PLANS`` for statements that read the first rows in the order of an index."""


class Run(Protocol):
    """Runs the statement of the given name and returns its rows."""

    async def __call__(self, statement: str, *arguments: Any) -> list[Any]: ...


class DatabaseUnavailableError(Exception):
    """The statement failed or got no answer, and may have taken effect. Holds no values and no text of the
    server."""


def read_statements(folder: Path) -> dict[str, str]:
    """The statements of ``folder`` by file name, one in each ``.sql`` file."""
    return {path.stem: path.read_text() for path in folder.glob("*.sql")}


def session_settings(timeout_s: float) -> dict[str, str]:
    """Settings of a session whose callers time out after ``timeout_s``: the server ends the statement too."""
    milliseconds = round(timeout_s * 1000)
    return {
        # Overrides the default of the role or the database.
        "synchronous_commit": "on",
        "statement_timeout": f"{milliseconds}ms",
        # Shorter than the caller's time limit: the caller learns that the statement had no effect.
        "lock_timeout": f"{milliseconds * LOCK_WAIT_PERCENT // 100}ms",
        # A backend releases its locks when its client has ended,
        "client_connection_check_interval": f"{CLIENT_CHECK_MS}ms",
        # or is frozen.
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}ms",
        "jit": "off",
    }


class DbConnection:
    """One connection that runs statements by their names. A lost connection is made anew by the next
    statement."""

    def __init__(
        self,
        dsn: str,
        application_name: str,
        statements: Mapping[str, str],
        *,
        timeout_ms: int = COMMIT_TIMEOUT_MS,
        session: Mapping[str, str] | None = None,
    ) -> None:
        """``timeout_ms`` limits one statement or transaction and the connecting before it. ``session`` adds
        settings of PostgreSQL."""
        self._dsn = dsn
        self._statements = statements
        self._timeout_s = timeout_ms / 1000
        self._application_name = application_name
        self._session = {**session_settings(self._timeout_s), **(session or {})}
        self._lock = asyncio.Lock()
        self._connection: PrimaryConnection | None = None

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """Run a statement and return its rows. Raises ``DatabaseUnavailableError`` if it fails or takes too
        long."""

        async def work(run: Run) -> list[Any]:
            return await run(statement, *arguments)

        return await self._attempt(statement, work)

    async def transact(self, name: str, work: Callable[[Run], Awaitable[Result]]) -> Result:
        """Run ``work`` in one transaction and return its result. Raises the errors of ``fetch``, which name
        the transaction ``name``."""

        async def inside(run: Run) -> Result:
            connection = await self._connected()
            await connection.execute("BEGIN")
            result = await work(run)
            await connection.execute("COMMIT")
            return result

        return await self._attempt(name, inside)

    async def _attempt(self, name: str, work: Callable[[Run], Awaitable[Result]]) -> Result:
        """Run ``work`` with the time limit. After a failure the connection is dropped: its state is
        unknown."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await work(self._run)
            except STATEMENT_FAILURES as failure:
                self.close()
                raise DatabaseUnavailableError(f"{name}: {type(failure).__name__}") from None
            except BaseException:
                # Also after a cancellation: the statement may still run on this connection.
                self.close()
                raise

    async def _run(self, statement: str, *arguments: Any) -> list[Any]:
        connection = await self._connected()
        return await connection.fetch(self._statements[statement], *arguments)

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connected(self) -> PrimaryConnection:
        if self._connection is not None and not accepts_writes(self._connection):
            self.close()
        if self._connection is None:
            self._connection = await connect(
                self._dsn, self._application_name, self._timeout_s, self._session
            )
        return self._connection
