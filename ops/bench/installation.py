"""Access of the benchmark's inner processes to the installation they measure."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from actors.settings import Settings
from ops.bench import procedure
from ops.database.migrate import migrate
from ops.supervision.installation import database

IN_PROCEDURES: Final = "batches"
_COPIED: Final = (
    "tenants",
    "programmes",
    "accounts",
    "cards",
    "card_usage",
    "declared_balances",
    "pans",
    "decision_configurations",
    "journal_rows",
    "transaction_rows",
    "holds",
    "ledger_entries",
    "event_rows",
)


def settings_of(var_dir: Path) -> Settings:
    """The settings of the running installation in ``var_dir``."""
    settings = Settings.load(var_dir=var_dir)
    with database(settings) as dsn:
        return settings.replace(database_url=dsn)


def rival_dsn(settings: Settings, kind: str) -> str:
    """The address of the rival's database on the same server."""
    return urlunsplit(urlsplit(settings.database_dsn)._replace(path=f"/{_database(kind)}"))


def _database(kind: str) -> str:
    return f"bench_{kind}"


async def make_rival_database(settings: Settings, kind: str) -> str:
    """Create the rival's database with the same tables and indexes, and copy the existing cards with their
    history; returns its name."""
    source = await asyncpg.connect(settings.database_dsn)
    try:
        await source.execute(f"CREATE DATABASE {_database(kind)} TEMPLATE template0 ENCODING 'UTF8'")
        dsn = rival_dsn(settings, kind)
        await migrate(dsn)
        target = await asyncpg.connect(dsn)
        try:
            for table in _COPIED:
                await _copy(source, target, table)
            await target.execute("VACUUM ANALYZE")
        finally:
            await target.close(timeout=10)
    finally:
        await source.close(timeout=10)
    if kind == IN_PROCEDURES:
        await procedure.install(dsn)
    return _database(kind)


async def _copy(
    source: asyncpg.Connection[asyncpg.Record], target: asyncpg.Connection[asyncpg.Record], table: str
) -> None:
    columns = [
        row["column_name"]
        for row in await source.fetch(
            # Transaction ids are not comparable between databases.
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND table_name = $1 AND data_type <> 'xid8' ORDER BY ordinal_position",
            table,
        )
    ]
    # Binary COPY in both directions, so that no value is decoded.
    with TemporaryFile() as rows:
        await source.copy_from_table(table, columns=columns, output=rows, format="binary")
        rows.seek(0)
        await target.copy_to_table(table, columns=columns, source=rows, format="binary")
