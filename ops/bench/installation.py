"""What the benchmark's inner processes know of the installation they measure."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from actors.settings import Settings
from ops.installation import database
from ops.migrate import migrate

RIVAL_DATABASE = "bench_rival"
_COPIED = ("tenants", "programmes", "accounts", "cards", "card_usage", "declared_balances", "pans")


def settings_of(var_dir: Path) -> Settings:
    """The settings of the running installation in ``var_dir``."""
    settings = Settings.load(var_dir=var_dir)
    with database(settings) as dsn:
        return settings.replace(database_url=dsn)


def rival_dsn(settings: Settings) -> str:
    """The rival's database: another one on the same server."""
    return urlunsplit(urlsplit(settings.database_dsn)._replace(path=f"/{RIVAL_DATABASE}"))


async def make_rival_database(settings: Settings) -> None:
    """Give the rival the same tables and indexes, and the cards that exist now."""
    source = await asyncpg.connect(settings.database_dsn)
    try:
        await source.execute(f"CREATE DATABASE {RIVAL_DATABASE} TEMPLATE template0 ENCODING 'UTF8'")
        await migrate(rival_dsn(settings))
        target = await asyncpg.connect(rival_dsn(settings))
        try:
            for table in _COPIED:
                await _copy(source, target, table)
            await target.execute("VACUUM ANALYZE")
        finally:
            await target.close(timeout=10)
    finally:
        await source.close(timeout=10)


async def _copy(
    source: asyncpg.Connection[asyncpg.Record], target: asyncpg.Connection[asyncpg.Record], table: str
) -> None:
    columns = [
        row["column_name"]
        for row in await source.fetch(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position",
            table,
        )
    ]
    # Tables of a benchmark's installation are small, so one list of rows will do.
    rows = await source.fetch(f"SELECT {', '.join(columns)} FROM {table}")
    await target.copy_records_to_table(table, records=[tuple(row) for row in rows], columns=columns)
