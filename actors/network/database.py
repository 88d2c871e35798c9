"""One database connection that runs one statement at a time and never hangs its caller.

Look-ups and records here are batched by their users, so a pool would only stand idle. A connection that
failed or took too long is terminated, never awaited: closing a connection to a frozen server can take
forever.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import asyncpg

from engine.limits import COMMIT_TIMEOUT_MS

SQL: Final = {path.stem: path.read_text() for path in (Path(__file__).parent / "sql").glob("*.sql")}

FAILURES: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # The driver's own state is broken: seen when the server ends a connection just as a statement begins.
    asyncpg.InternalClientError,
)


class DatabaseUnavailableError(Exception):
    """The statement got no answer; it may or may not have taken effect. Holds no values and no server
    text."""


class Lane:
    """Statements by name, from ``sql/``."""

    def __init__(self, dsn: str, application_name: str, timeout_ms: int = COMMIT_TIMEOUT_MS) -> None:
        self._dsn = dsn
        self._session = {"application_name": application_name, "jit": "off"}
        self._timeout_s = timeout_ms / 1000
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection[Any] | None = None

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of ``sql/<statement>.sql``; ``DatabaseUnavailableError`` when the server does not answer
        in time."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout_s):
                    connection = await self._connected()
                    return await connection.fetch(SQL[statement], *arguments)
            except FAILURES as failure:
                self.close()
                raise DatabaseUnavailableError(f"{statement}: {type(failure).__name__}") from None

    def close(self) -> None:
        """Drops the connection; the next statement makes another. Closing twice is harmless."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._dsn, timeout=self._timeout_s, server_settings=self._session
            )
        return self._connection
