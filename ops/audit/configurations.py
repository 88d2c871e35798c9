"""The configurations that stored decisions name (``engine.decision.compact``)."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from engine.decision.compact_layout import digest_of

CONFIGURED: Final = "each configuration that a decision names is stored unchanged"
_NAMED: Final = """
    SELECT coalesce(n.digest, c.digest) AS digest, c.card, c.programme, c.decisioning
    FROM (SELECT DISTINCT inputs::json ->> 0 AS digest FROM journal_rows WHERE command LIKE '[%') n
    FULL JOIN decision_configurations c ON c.digest = n.digest
"""


async def changed_configurations(connection: asyncpg.Connection[Any]) -> tuple[int, list[str]]:
    """How many configurations are stored or named, and the digests of those that are missing or changed."""
    rows = await connection.fetch(_NAMED)
    return len(rows), [row["digest"] for row in rows if not _is_unchanged(row)]


def _is_unchanged(row: asyncpg.Record) -> bool:
    if row["card"] is None:
        return False
    return bool(digest_of(row["card"], row["programme"], row["decisioning"]) == row["digest"])
