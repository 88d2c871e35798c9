"""Reads the owners and epochs of shards for the coordinator."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from actors.database import DbConnection, read_statements

_SQL: Final = read_statements(Path(__file__).parent / "sql")


class ShardOwners:
    """The table ``shards``, read through one connection. Every method can raise
    ``DatabaseUnavailableError``."""

    def __init__(self, dsn: str) -> None:
        self._connection = DbConnection(dsn, "stanchion-coordinator", _SQL)

    async def owners(self) -> dict[int, str | None]:
        """The incarnation that owns each shard. Its process may have ended."""
        return {row["shard"]: row["host"] for row in await self._connection.fetch("load_owners")}

    async def epochs(self, shards: Collection[int]) -> dict[int, int]:
        """The newest epoch of each of ``shards``."""
        rows = await self._connection.fetch("load_epochs", sorted(shards))
        return {row["shard"]: row["epoch"] for row in rows}
