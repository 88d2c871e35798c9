"""The process that reads the database of an installation for a benchmark: its log, its tables' sizes.

    python -m ops.bench.meter VAR

It uses PostgreSQL's catalog only, so it also reads the database of another version in ``VAR``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import uvloop

from ops.bench.installation import settings_of
from ops.bench.pipe import serve

_LSN: Final = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"

# A partition counts as its table. The size of a table includes its TOAST table and its maps.
_SIZES: Final = """
    SELECT root.relname, sum(pg_table_size(c.oid))::bigint AS row_bytes,
        sum(pg_indexes_size(c.oid))::bigint AS index_bytes
    FROM pg_class c
    JOIN pg_class root ON root.oid = coalesce(pg_partition_root(c.oid), c.oid)
    WHERE c.relkind IN ('r', 'm') AND c.relnamespace = 'public'::regnamespace
    GROUP BY root.relname
"""

_TABLES: Final = """
    SELECT relname, quote_ident(relname) AS quoted FROM pg_class
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
"""

_IMAGES: Final = """
    SELECT coalesce(sum(fpi_size), 0)::bigint
    FROM pg_get_wal_stats('0/0'::pg_lsn + $1::bigint, '0/0'::pg_lsn + $2::bigint)
"""


class DatabaseMeter:
    """Connections to databases of one server, by name; the empty name is the installation's own database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}

    async def log_bytes(self) -> int:
        """Bytes of write-ahead log of the server so far, for all its databases."""
        return int(await (await self._connection("")).fetchval(_LSN))

    async def table_bytes(self, database: str) -> dict[str, tuple[int, int]]:
        """Bytes on disk of each table and of its indexes."""
        rows = await (await self._connection(database)).fetch(_SIZES)
        return {row["relname"]: (row["row_bytes"], row["index_bytes"]) for row in rows}

    async def table_rows(self, database: str) -> dict[str, int]:
        """The number of rows of each table, counted."""
        connection = await self._connection(database)
        counts: dict[str, int] = {}
        for row in await connection.fetch(_TABLES):
            counts[row["relname"]] = await connection.fetchval(f"SELECT count(*) FROM {row['quoted']}")
        return counts

    async def page_image_bytes(self, begin: int, end: int) -> int:
        """Bytes of full page images in the log between two positions (``log_bytes``). The images repair pages
        that a crash has torn; PostgreSQL logs one when it changes a page for the first time after a
        checkpoint."""
        connection = await self._connection("")
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        return int(await connection.fetchval(_IMAGES, begin, end))

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            await connection.close(timeout=10)

    async def _connection(self, database: str) -> asyncpg.Connection[asyncpg.Record]:
        if database not in self._connections:
            dsn = urlunsplit(urlsplit(self._dsn)._replace(path=f"/{database}")) if database else self._dsn
            self._connections[database] = await asyncpg.connect(dsn)
        return self._connections[database]


async def _main(var_dir: Path) -> None:
    meter = DatabaseMeter(settings_of(var_dir).database_dsn)
    names = ("log_bytes", "table_bytes", "table_rows", "page_image_bytes")
    try:
        await serve({name: getattr(meter, name) for name in names})
    finally:
        await meter.close()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1])))
