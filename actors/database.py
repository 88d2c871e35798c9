"""One database connection that runs one statement at a time and never hangs its caller.

Who works in batches needs no pool: it would only stand idle. A connection that failed or took too long is
terminated, never awaited: closing a connection to a frozen server can take forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import asyncpg

from engine.limits import COMMIT_TIMEOUT_MS

FAILURES: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # The driver's own state is broken: seen when the server ends a connection just as a statement begins.
    asyncpg.InternalClientError,
)

Result = TypeVar("Result")


class Run(Protocol):
    """Runs the statement of that name and returns its rows."""

    async def __call__(self, statement: str, *arguments: Any) -> list[Any]: ...


class DatabaseUnavailableError(Exception):
    """The statement got no answer; it may or may not have taken effect. Holds no values and no server
    text."""


def read_statements(folder: Path) -> dict[str, str]:
    """The statements of ``folder``, one in each ``.sql`` file, by the file's name."""
    return {path.stem: path.read_text() for path in folder.glob("*.sql")}


class Lane:
    """Statements by name. Closing twice is harmless."""

    def __init__(
        self,
        dsn: str,
        application_name: str,
        statements: Mapping[str, str],
        *,
        timeout_ms: int = COMMIT_TIMEOUT_MS,
        session: Mapping[str, str] | None = None,
    ) -> None:
        """``timeout_ms``: for one statement or transaction, connecting included; ``session``: settings of
        PostgreSQL for this connection."""
        self._dsn = dsn
        self._statements = statements
        self._session = {"application_name": application_name, "jit": "off", **(session or {})}
        self._timeout_s = timeout_ms / 1000
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection[Any] | None = None

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a statement; ``DatabaseUnavailableError`` when the server does not answer in time."""

        async def work(run: Run) -> list[Any]:
            return await run(statement, *arguments)

        return await self._attempt(statement, work)

    async def transact(self, name: str, work: Callable[[Run], Awaitable[Result]]) -> Result:
        """The result of ``work``, all of whose statements take effect together or not at all; errors as
        those of ``fetch``. ``name`` is for their text."""

        async def inside(run: Run) -> Result:
            connection = await self._connected()
            await connection.execute("BEGIN")
            result = await work(run)
            await connection.execute("COMMIT")
            return result

        return await self._attempt(name, inside)

    async def _attempt(self, name: str, work: Callable[[Run], Awaitable[Result]]) -> Result:
        """A connection whose state is not known after ``work`` is dropped, and what it had begun with it."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await work(self._run)
            except FAILURES as failure:
                self.close()
                raise DatabaseUnavailableError(f"{name}: {type(failure).__name__}") from None
            except BaseException:
                self.close()
                raise

    async def _run(self, statement: str, *arguments: Any) -> list[Any]:
        connection = await self._connected()
        return await connection.fetch(self._statements[statement], *arguments)

    def close(self) -> None:
        """Drops the connection; the next statement makes another."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._dsn, timeout=self._timeout_s, server_settings=self._session
            )
        return self._connection
