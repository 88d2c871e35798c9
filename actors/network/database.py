"""SQL statements of this package and the connections that run them (``actors.database``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from actors import database
from actors.database import DatabaseUnavailableError, Run
from engine.limits import COMMIT_TIMEOUT_MS

__all__ = ["SQL", "DatabaseUnavailableError", "NetworkDbConnection", "Run"]

SQL: Final = database.read_statements(Path(__file__).parent / "sql")
GENERIC_PLANS: Final[Mapping[str, str]] = database.INDEX_PLANS
"""Session settings for statements that are planned once."""


class NetworkDbConnection(database.DbConnection):
    """Runs the statements of ``sql/`` by name, one at a time."""

    def __init__(
        self,
        dsn: str,
        application_name: str,
        timeout_ms: int = COMMIT_TIMEOUT_MS,
        *,
        session: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(dsn, application_name, SQL, timeout_ms=timeout_ms, session=session)
