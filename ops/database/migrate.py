"""Numbered SQL files, applied once each, in order.

Every file runs in one transaction under one advisory lock that the transaction itself holds, so several
starting installations can run this at once and a crash leaves no lock behind. An applied file never changes:
its checksum is kept, and a database that is newer than the code is refused rather than guessed at.

While a new version takes the place of an old one, process by process, both use the database. So a file may
only add what the old version does not mind, unless its name ends in ``.after.sql``: such a file takes away
what the old version still needed, and waits until every process runs the new one.

A file can need rows changed first that only code can change, for example values to be sealed: ``PREPARED``
names the step that runs before it. Such a step commits by batches and can be repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg

from actors.vault import Vault, VaultError
from ops.database.cardholder_sealing import seal_cardholders
from ops.database.key_check import KeyCheckError

FOLDER: Final = Path(__file__).parents[1] / "migrations"
SERVER_VERSION_MIN: Final = 15
CONNECT_SECONDS_MAX: Final = 10.0
RETRY_SECONDS: Final = 0.2

# "stanchion" in ASCII, cut to 63 bits: the same lock for every runner on one database.
LOCK: Final = int.from_bytes(b"stanchio", "big") >> 1
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)(\.after)?\.sql")
_BOOKKEEPING: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


class MigrationError(Exception):
    """The database cannot be brought to this version. The message is one line without row values."""


Keys: TypeAlias = Callable[[], Vault]
"""Builds the vault; called only if a step seals something. Raises VaultError."""
PREPARED: Final[dict[str, Callable[[str, Keys], Awaitable[object]]]] = {
    "cardholder_clear_columns": seal_cardholders
}
"""Steps by the name of the migration that they come before: they take the DSN and the keys."""


def no_keys() -> Vault:
    """For databases without rows to seal. Raises VaultError."""
    raise VaultError("stored values have to be sealed: give the master key, STANCHION_MASTER_KEY")


@dataclass(frozen=True)
class Migration:
    """One file. ``checksum`` is SHA-256 of its bytes, in hexadecimal; ``after`` says that no process of the
    version before may be left."""

    version: int
    name: str
    sql: str
    checksum: str
    after: bool = False


def load_migrations(folder: Path = FOLDER) -> list[Migration]:
    """The files ``NNNN_name.sql`` and ``NNNN_name.after.sql`` of ``folder``, numbered 1, 2, 3 … without gaps.
    Raises MigrationError."""
    migrations: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[1]) != len(migrations) + 1:
            raise MigrationError(f"{path.name}: files are named NNNN_name.sql and numbered without gaps")
        raw = path.read_bytes()
        checksum, after = hashlib.sha256(raw).hexdigest(), match[3] is not None
        migrations.append(Migration(int(match[1]), match[2], raw.decode("utf-8"), checksum, after))
    return migrations


async def migrate(
    dsn: str,
    folder: Path = FOLDER,
    *,
    patience_seconds: float = 0.0,
    before_only: bool = False,
    keys: Keys = no_keys,
) -> list[str]:
    """Bring the database at ``dsn`` to this version; returns the names applied by this call.

    ``before_only``: as far as processes of the version before may still run; ``waiting`` then names the
    remaining files. Connecting is retried for ``patience_seconds``: machines often start all at once.

    ``keys`` seals stored values that the version before kept in clear.

    Raises MigrationError when the server is unsafe or too old, an applied file has changed, or a file fails.
    """
    migrations = load_migrations(folder)
    connection = await _connect(dsn, patience_seconds)
    try:
        await check_server(connection)
        await _check_newer(connection, migrations)
        if before_only:
            migrations = _before(migrations, await _applied(connection))
        applied = []
        for migration in migrations:
            if migration.name in PREPARED and migration.version not in await _applied(connection):
                await _prepare(migration, dsn, keys)
            if await _apply(connection, migration):
                applied.append(migration.name)
        return applied
    finally:
        await connection.close(timeout=10)


async def _prepare(migration: Migration, dsn: str, keys: Keys) -> None:
    label = f"{migration.version:04}_{migration.name}"
    try:
        await PREPARED[migration.name](dsn, keys)
    except (VaultError, KeyCheckError) as failure:
        raise MigrationError(f"{label} cannot be applied: {failure}") from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as failure:
        raise MigrationError(f"{label} cannot be applied: {one_line(failure)}") from None


async def waiting(dsn: str, folder: Path = FOLDER) -> list[str]:
    """The names of the files that have not been applied. Raises MigrationError."""
    connection = await _connect(dsn, 0.0)
    try:
        applied = await _applied(connection)
    finally:
        await connection.close(timeout=10)
    return [migration.name for migration in load_migrations(folder) if migration.version not in applied]


def _before(migrations: list[Migration], applied: set[int]) -> list[Migration]:
    """Everything up to the first one that has to wait: order is kept. An empty database takes all: no process
    of the version before uses it."""
    if not applied:
        return migrations
    waits = (each.version for each in migrations if each.after and each.version not in applied)
    first = next(waits, len(migrations) + 1)
    return [each for each in migrations if each.version < first]


async def _applied(connection: asyncpg.Connection[asyncpg.Record]) -> set[int]:
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return set()
    return {row["version"] for row in await connection.fetch("SELECT version FROM schema_migrations")}


async def _connect(dsn: str, patience_seconds: float) -> asyncpg.Connection[asyncpg.Record]:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return await asyncpg.connect(dsn, timeout=CONNECT_SECONDS_MAX)
        except (OSError, TimeoutError, asyncpg.CannotConnectNowError) as failure:
            if time.monotonic() > deadline:
                raise MigrationError(f"the database cannot be reached: {one_line(failure)}") from None
        except (ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as failure:
            raise MigrationError(f"the database refuses us: {one_line(failure)}") from None
        await asyncio.sleep(RETRY_SECONDS)


async def check_server(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Refuse a server that is too old or that may lose a committed transaction. Raises MigrationError."""
    row = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int / 10000 AS version,"
        " current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,"
        " current_setting('full_page_writes') AS full_page_writes,"
        " current_setting('synchronous_commit') AS synchronous_commit"
    )
    assert row is not None
    if row["version"] < SERVER_VERSION_MIN:
        raise MigrationError(
            f"PostgreSQL {row['version']} is too old; {SERVER_VERSION_MIN} or newer is needed"
        )
    if row["encoding"] != "UTF8":
        raise MigrationError(f"the database's encoding is {row['encoding']}; UTF8 is needed")
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if row[name] == "off":
            raise MigrationError(f"the database runs with {name} = off and could lose acknowledged decisions")


async def _check_newer(connection: asyncpg.Connection[asyncpg.Record], migrations: list[Migration]) -> None:
    newest = max(await _applied(connection), default=0)
    if newest > len(migrations):
        raise MigrationError(
            f"the database is at version {newest}, this code knows {len(migrations)}: use newer code"
        )


async def _apply(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> bool:
    """Apply ``migration`` unless it is there already; both are decided under the lock."""
    label = f"{migration.version:04}_{migration.name}"
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(_BOOKKEEPING)
            checksum = await connection.fetchval(
                "SELECT checksum FROM schema_migrations WHERE version = $1", migration.version
            )
            if checksum is not None:
                if checksum != migration.checksum:
                    raise MigrationError(f"{label} was changed after it had been applied")
                return False
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as failure:
        raise MigrationError(f"{label} failed: {one_line(failure)}") from None
    return True


def one_line(failure: BaseException) -> str:
    """The server's message alone: its DETAIL may hold row values. For one-line errors."""
    message = getattr(failure, "message", None) or str(failure) or type(failure).__name__
    return str(message).splitlines()[0]
