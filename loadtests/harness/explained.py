"""The plans of an installation's statements, from PostgreSQL's ``auto_explain``: the rows that they read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

LOG: Final = "log/postgres.log"
_SETTINGS: Final = {
    "session_preload_libraries": "'auto_explain'",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_min_duration": "0",
}
_NEW_SESSIONS: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stanchion-api'
"""
_MARK: Final = b"plan:\n"
_END: Final = b"\n\t}\n"
"""The end of a plan. What follows the last one may be half of a plan of another process."""
_decoder: Final = json.JSONDecoder()


class Reading(msgspec.Struct):
    """The reading of one table by some statements."""

    rows: int = 0
    """Rows read, those that a filter removed included."""
    scans: set[str] = msgspec.field(default_factory=set)
    """The kinds of scans, with their indexes."""


class Plans:
    """The plans that have been logged since the last look at them."""

    def __init__(self, var_dir: Path) -> None:
        self._log = var_dir / LOG
        self._at = self._log.stat().st_size

    def take(self, table: str) -> Reading:
        """The reading of ``table`` since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._at)
            text = log.read()
        whole = text[: text.rfind(_END) + len(_END)] if _END in text else b""
        self._at += len(whole)
        found = Reading()
        for plan in plans_of(whole):
            for node in nodes_of(plan):
                if node.get("Relation Name") == table:
                    removed = node.get("Rows Removed by Filter", 0) + node.get(
                        "Rows Removed by Index Recheck", 0
                    )
                    found.rows += round((node["Actual Rows"] + removed) * node["Actual Loops"])
                    found.scans.add(f"{node['Node Type']} {node.get('Index Name', '')}".strip())
        return found


def plans_of(log: bytes) -> Iterator[dict[str, Any]]:
    """The plans in a part of the log."""
    for part in log.split(_MARK)[1:]:
        # The log indents the lines of a message by a tab, which is white space in JSON, too. Lines of two
        # processes can mix; such a plan is left out.
        with suppress(json.JSONDecodeError):
            explained, _ = _decoder.raw_decode(part.decode("utf-8", "replace").lstrip())
            yield explained["Plan"]


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``plan`` and all plans below it."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes_of(part)


@asynccontextmanager
async def explained(dsn: str, var_dir: Path) -> AsyncIterator[Plans]:
    """Log the plans of the API's statements during the block. ``dsn``: a superuser's. Requests that run at
    its beginning or its end can fail, because the API gets new sessions."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("LOAD 'auto_explain'")
        for name, value in _SETTINGS.items():
            await connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        await _apply(connection)
        try:
            yield Plans(var_dir)
        finally:
            for name in _SETTINGS:
                await connection.execute(f"ALTER SYSTEM RESET {name}")
            await _apply(connection)
    finally:
        await connection.close()


async def _apply(connection: Any) -> None:
    await connection.execute("SELECT pg_reload_conf()")
    await connection.execute(_NEW_SESSIONS)
