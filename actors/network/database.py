"""The network's statements, on connections that run one at a time (``actors.database``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from actors import database
from actors.database import DatabaseUnavailableError, Run
from engine.limits import COMMIT_TIMEOUT_MS

__all__ = ["SQL", "DatabaseUnavailableError", "Lane", "Run"]

SQL: Final = database.read_statements(Path(__file__).parent / "sql")


class Lane(database.Lane):
    """Statements by name, from ``sql/``."""

    def __init__(self, dsn: str, application_name: str, timeout_ms: int = COMMIT_TIMEOUT_MS) -> None:
        super().__init__(dsn, application_name, SQL, timeout_ms=timeout_ms)
