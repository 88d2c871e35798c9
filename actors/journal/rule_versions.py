"""The versions of authorization rules, which replays of decisions need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import asyncpg

from actors.journal.decoding import decode_rule
from engine.rules.model import Rule
from engine.rules.observed import RuleName

_ALL: Final = "SELECT rule_id::text, version, rule FROM authorization_rule_versions"
_SOME: Final = f"{_ALL} WHERE (rule_id, version) IN (SELECT * FROM unnest($1::text[]::uuid[], $2::int[]))"


async def load_rule_versions(
    connection: asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any],
    names: Iterable[RuleName] | None = None,
) -> dict[RuleName, Rule]:
    """The versions ``names`` (id and version), or all of them; unknown ones are absent."""
    if names is None:
        rows = await connection.fetch(_ALL)
    else:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        ids, versions = zip(*wanted, strict=True)
        rows = await connection.fetch(_SOME, list(ids), list(versions))
    return {(row["rule_id"], row["version"]): decode_rule(row["rule"]) for row in rows}
