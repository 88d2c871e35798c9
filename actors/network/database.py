"""The network's statements, on connections that run one at a time (``actors.database``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from actors import database
from actors.database import DatabaseUnavailableError, Run
from engine.limits import COMMIT_TIMEOUT_MS

__all__ = ["SQL", "DatabaseUnavailableError", "Lane", "Run"]

SQL: Final = database.read_statements(Path(__file__).parent / "sql")
_SESSION: Final[Mapping[str, str]] = {
    # Plans must stay walks over indexes, however small the tables were when they were first planned, and they
    # must be kept: planning ``record_simulations`` takes as long as running it.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
}


class Lane(database.Lane):
    """Statements by name, from ``sql/``."""

    def __init__(self, dsn: str, application_name: str, timeout_ms: int = COMMIT_TIMEOUT_MS) -> None:
        super().__init__(dsn, application_name, SQL, timeout_ms=timeout_ms, session=_SESSION)
