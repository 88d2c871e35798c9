"""Bring a database to this version: numbered migrations first, then the functions.

**Migrations** (``ops/migrations``) are numbered files, each applied once, in order, except that some wait
(below). An applied file never changes: its checksum is stored in ``schema_migrations``, and a changed file is
refused. So is a database with more migrations than the code.

**Functions** (``actors/*/sql/functions``) are repeatable files: each holds one ``CREATE OR REPLACE FUNCTION``
and is applied again when its text has changed. ``schema_functions`` stores the checksums.

Each migration runs in one transaction, all functions together in one more. Every transaction holds the same
advisory lock: several installations can start at once, and a crash leaves no lock behind.

**Rolling upgrades.** Processes of the previous release use the database while processes of this release
replace them. Therefore:

- A migration only adds what the previous release tolerates. A file named ``NNNN_name.after.sql`` may remove
  what the previous release needs; it waits until no such process is left. Later files do not wait for it, so
  they must not depend on it.
- A function keeps its parameters and its result, and its new body serves callers of the previous release too.
  Everything else is a new function with the next number (``commit_batch_v3``). The runner never drops a
  function, refuses a file that would change parameters or a result, and with ``before_only`` does not put an
  older body back. An ``.after.sql`` migration drops functions that no process calls any more.

Some migrations need rows that only code can change first, for example values to be sealed: ``PREPARED`` names
the step that runs before the migration. Such a step commits in batches and can be repeated.
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

from actors.primary import CannotConnectError, PrimaryConnection, connect
from actors.sqlstates import STATEMENT_FAILURES
from actors.vault import Vault, VaultError
from ops.database.cardholder_sealing import seal_cardholders
from ops.database.concurrent_indexes import prepare_compact_transactions
from ops.database.first_commit import prepare_first_commit
from ops.database.key_check import KeyCheckError
from ops.database.list_filters import prepare_list_filters

FOLDER: Final = Path(__file__).parents[1] / "migrations"
FUNCTIONS: Final = Path(__file__).parents[2] / "actors"
"""Root of the folders ``*/sql/functions``."""
SERVER_VERSION_MIN: Final = 15
CONNECT_SECONDS_MAX: Final = 10.0
RETRY_SECONDS: Final = 0.2

# "stanchio" in ASCII as 63 bits. One lock for all runners on a database.
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
_FLOOR_BOOKKEEPING: Final = """
CREATE TABLE IF NOT EXISTS schema_floor (
    migrations integer PRIMARY KEY,
    recorded_at timestamptz NOT NULL DEFAULT now()
)
"""
_FUNCTION: Final = re.compile(r"(?:--[^\n]*\n)*CREATE OR REPLACE FUNCTION ([a-z0-9_]+)\(")
_FUNCTION_BOOKKEEPING: Final = """
CREATE TABLE IF NOT EXISTS schema_functions (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


class MigrationError(Exception):
    """The database cannot be brought to this version. The message is one line without row values."""


Keys: TypeAlias = Callable[[], Vault]
"""Builds the vault. Called only if a step has values to seal. Raises VaultError."""
PREPARED: Final[dict[str, Callable[[str, Keys], Awaitable[object]]]] = {
    "cardholder_clear_columns": seal_cardholders,
    "compact_transactions": prepare_compact_transactions,
    "list_filters": prepare_list_filters,
    "object_metadata": prepare_first_commit,
}
"""Steps by the name of the migration that needs them first. A step takes the DSN and the keys."""


def no_keys() -> Vault:
    """For databases without values to seal. Raises VaultError."""
    raise VaultError("stored values have to be sealed: give the master key, STANCHION_MASTER_KEY")


@dataclass(frozen=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str
    checksum: str
    """SHA-256 of the file's bytes, in hexadecimal."""
    after: bool = False
    """Whether the migration waits until no process of the previous release is left."""


@dataclass(frozen=True)
class SqlFunction:
    """One repeatable file. ``checksum`` is SHA-256 of its bytes, in hexadecimal."""

    name: str
    sql: str
    checksum: str


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


def load_functions(root: Path = FUNCTIONS) -> list[SqlFunction]:
    """The files ``*/sql/functions/NAME.sql`` below ``root``. Raises MigrationError."""
    functions: dict[str, SqlFunction] = {}
    for path in sorted(root.glob("*/sql/functions/*.sql")):
        raw = path.read_bytes()
        sql, name = raw.decode("utf-8"), path.stem
        match = _FUNCTION.match(sql)
        if match is None or match[1] != name:
            raise MigrationError(f"{path.name}: the file must begin with CREATE OR REPLACE FUNCTION {name}(")
        if name in functions:
            raise MigrationError(f"{path.name}: two files define the function")
        functions[name] = SqlFunction(name, sql, hashlib.sha256(raw).hexdigest())
    return list(functions.values())


async def migrate(
    dsn: str,
    folder: Path = FOLDER,
    functions: Path = FUNCTIONS,
    *,
    patience_seconds: float = 0.0,
    before_only: bool = False,
    keys: Keys = no_keys,
) -> list[str]:
    """Bring the database at ``dsn`` to this version. Returns the names of the migrations and functions that
    this call applied.

    ``before_only``: apply only what processes of the previous release tolerate; ``waiting`` names the
    remaining migrations. Connecting is retried for ``patience_seconds``: machines often start together.
    ``keys`` seals values that the previous release stored in clear.

    Raises MigrationError if the server is unsafe or too old, an applied migration has changed, or a file
    fails.
    """
    migrations, repeatable = load_migrations(folder), load_functions(functions)
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
        applied += await _apply_functions(connection, repeatable, before_only=before_only)
        if not before_only:
            await _complete_upgrade(connection, len(migrations))
        return applied
    finally:
        await connection.close(timeout=10)


def applied_line(applied: list[str]) -> str:
    """What ``migrate`` has applied, as a sentence: migrations and functions apart."""
    functions = {each.name for each in load_functions()}
    counts = (
        (sum(name not in functions for name in applied), "migration"),
        (sum(name in functions for name in applied), "database function"),
    )
    parts = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    return f"Applied {' and '.join(parts)}."


async def _prepare(migration: Migration, dsn: str, keys: Keys) -> None:
    label = f"{migration.version:04}_{migration.name}"
    try:
        await PREPARED[migration.name](dsn, keys)
    except (VaultError, KeyCheckError) as failure:
        raise MigrationError(f"{label} cannot be applied: {failure}") from None
    except STATEMENT_FAILURES as failure:
        raise MigrationError(f"{label} cannot be applied: {one_line(failure)}") from None


async def waiting(dsn: str, folder: Path = FOLDER) -> list[str]:
    """The names of the migrations that have not been applied. Raises MigrationError."""
    connection = await _connect(dsn, 0.0)
    try:
        applied = await _applied(connection)
    finally:
        await connection.close(timeout=10)
    return [migration.name for migration in load_migrations(folder) if migration.version not in applied]


def _before(migrations: list[Migration], applied: set[int]) -> list[Migration]:
    """The migrations that need not wait. An empty database takes all: no process of the previous release uses
    it."""
    if not applied:
        return migrations
    return [each for each in migrations if not each.after or each.version in applied]


async def _applied(connection: asyncpg.Connection[asyncpg.Record]) -> set[int]:
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return set()
    return {row["version"] for row in await connection.fetch("SELECT version FROM schema_migrations")}


async def _connect(dsn: str, patience_seconds: float) -> PrimaryConnection:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            # Without ``synchronous_commit``: ``check_server`` reads the server's own setting.
            return await connect(dsn, "stanchion-migrate", CONNECT_SECONDS_MAX, {})
        except CannotConnectError as failure:
            if failure.permanent or time.monotonic() > deadline:
                raise MigrationError(f"the database cannot be reached: {failure}") from None
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
    await connection.execute("SET synchronous_commit = on")


async def _check_newer(connection: asyncpg.Connection[asyncpg.Record], migrations: list[Migration]) -> None:
    newest = max(await _applied(connection), default=0)
    if newest > len(migrations):
        raise MigrationError(
            f"the database is at version {newest}, this code knows {len(migrations)}: use newer code"
        )


async def _apply(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> bool:
    """Apply ``migration`` unless it has been applied. Returns whether it was. Checked under the lock."""
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
    except STATEMENT_FAILURES as failure:
        raise MigrationError(f"{label} failed: {one_line(failure)}") from None
    return True


async def _apply_functions(
    connection: asyncpg.Connection[asyncpg.Record], functions: list[SqlFunction], *, before_only: bool
) -> list[str]:
    """Apply all changed functions in one transaction. Returns their names."""
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(_FUNCTION_BOOKKEEPING)
            rows = await connection.fetch("SELECT name, checksum FROM schema_functions ORDER BY number")
            newest = {row["name"]: row["checksum"] for row in rows}
            recorded = {(row["name"], row["checksum"]) for row in rows}
            changed = [
                each
                for each in functions
                if newest.get(each.name) != each.checksum
                # While two releases run, a body that was replaced once is the previous release's.
                and not (before_only and (each.name, each.checksum) in recorded)
            ]
            for function in changed:
                await _replace(connection, function)
    except STATEMENT_FAILURES as failure:
        raise MigrationError(f"the functions cannot be applied: {one_line(failure)}") from None
    return [each.name for each in changed]


async def _complete_upgrade(connection: asyncpg.Connection[asyncpg.Record], migrations: int) -> None:
    """Record that code must know this many migrations from now on (``actors.release``)."""
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(_FLOOR_BOOKKEEPING)
            floor = await connection.fetchval("SELECT max(migrations) FROM schema_floor")
            if floor is None or floor < migrations:
                await connection.execute("INSERT INTO schema_floor (migrations) VALUES ($1)", migrations)
    except STATEMENT_FAILURES as failure:
        raise MigrationError(f"the upgrade cannot be completed: {one_line(failure)}") from None


async def _replace(connection: asyncpg.Connection[asyncpg.Record], function: SqlFunction) -> None:
    """Create the function or replace its body. Raises MigrationError if the parameters or the result differ
    from those in the database."""
    try:
        # As a prepared statement, which holds one command. PostgreSQL refuses another result.
        await connection.fetch(function.sql)
    except asyncpg.PostgresError as failure:
        raise MigrationError(f"function {function.name} failed: {one_line(failure)}") from None
    # Other parameters make a second function of the same name.
    same_name = await connection.fetchval(
        "SELECT count(*) FROM pg_proc WHERE proname = $1 AND pronamespace = current_schema()::regnamespace",
        function.name,
    )
    if same_name != 1:
        raise MigrationError(
            f"function {function.name} has other parameters in the database: give the new one a new name"
        )
    await connection.execute(
        "INSERT INTO schema_functions (name, checksum) VALUES ($1, $2)", function.name, function.checksum
    )


def one_line(failure: BaseException) -> str:
    """The server's message without its DETAIL, which may hold row values."""
    message = getattr(failure, "message", None) or str(failure) or type(failure).__name__
    return str(message).splitlines()[0]
