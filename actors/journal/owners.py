"""Who owns which shard, as the journal has it: what a coordinator starts from."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from actors.database import DbConnection, read_statements

_SQL: Final = read_statements(Path(__file__).parent / "sql")


class ShardBook:
    """The table ``shards``, read through one connection. Errors of every method:
    ``DatabaseUnavailableError``."""

    def __init__(self, dsn: str) -> None:
        self._lane = DbConnection(dsn, "stanchion-coordinator", _SQL)

    async def owners(self) -> dict[int, str | None]:
        """The incarnation that holds the newest epoch of each shard; it may have died long ago."""
        return {row["shard"]: row["host"] for row in await self._lane.fetch("load_owners")}

    async def epochs(self, shards: Collection[int]) -> dict[int, int]:
        """The newest epoch of each of ``shards``."""
        rows = await self._lane.fetch("load_epochs", sorted(shards))
        return {row["shard"]: row["epoch"] for row in rows}
