"""``stanchion archive``: whole months of the records in files with a manifest, and the check of such files.

One snapshot of the database fills all files of a month. The database keeps its rows: an archive is a copy.
``MONTH/manifest.json`` has the number of rows, bytes and the SHA-256 digest of each file; it is written last,
so a folder without one is an interrupted archive.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from actors.primary import PrimaryConnection
from ops.commands.progress import Progress
from ops.database.operator_connection import connect_operator
from ops.embedded.passwords import write_private
from stanchion import __version__

TABLES: Final[dict[str, tuple[str, str]]] = {
    "journal": ("recorded_at", "actor_id, seq"),
    "transactions": ("created_at", "id"),
    "ledger_entries": ("occurred_at", "id"),
    "transfers": ("created_at", "id"),
    "events": ("created_at", "tenant_id, live, id"),
    "stand_ins": ("decided_at", "id"),
    "audit_log": ("recorded_at", "id"),
}
"""Each archived table with the column that gives its month, and its order."""
MANIFEST: Final = "manifest.json"
FORMAT: Final = "jsonl.gz"
ROWS_AT_ONCE: Final = 2_000
PIECE_BYTES: Final = 1 << 20
SETTLED: Final = timedelta(days=1)
"""A month can be archived this long after its end: no transaction that wrote into it is open any more."""

_MONTH: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_COUNT: Final = "SELECT count(*) FROM {table} WHERE {column} >= $1 AND {column} < $2"
_ROWS: Final = (
    "SELECT to_jsonb(archived)::text FROM {table} archived"
    " WHERE {column} >= $1 AND {column} < $2 ORDER BY {order}"
)


class ArchiveError(Exception):
    """The archive cannot be made, or it does not match its manifest. The message is one line."""


@dataclass(frozen=True)
class Month:
    """A calendar month in UTC."""

    name: str
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class Archived:
    """A month in a folder, as its manifest describes it."""

    month: str
    made_at: str
    version: str
    rows: int
    size_bytes: int


def parse_month(text: str) -> Month:
    """``2026-10``. Raises ArchiveError."""
    found = _MONTH.fullmatch(text)
    if found is None:
        raise ArchiveError("a month is written like 2026-10")
    year, number = int(found[1]), int(found[2])
    if not 1 <= year < 9999:
        raise ArchiveError("a month is written like 2026-10")
    begin = datetime(year, number, 1, tzinfo=UTC)
    end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return Month(text, begin, end)


async def write(dsn: str, month: Month, folder: Path, progress: Progress) -> dict[str, Any]:
    """Write ``month`` to a new folder in ``folder``; returns its manifest. Raises ArchiveError.

    An interrupted archive of the same month is replaced; a complete one is not.
    """
    target = folder / month.name
    if (target / MANIFEST).exists():
        raise ArchiveError(f"{target} is complete already; remove it to archive the month again")
    connection = await connect_operator(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute("SET LOCAL TIME ZONE 'UTC'")
            now: datetime = await connection.fetchval("SELECT now()")
            if now < month.end + SETTLED:
                raise ArchiveError(f"{month.name} can be archived from {month.end + SETTLED:%Y-%m-%d} on")
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = [await _write_table(connection, table, month, target, progress) for table in TABLES]
    except OSError as failure:
        raise ArchiveError(f"{target} cannot be written: {failure.strerror}") from None
    finally:
        await connection.close(timeout=10)
    manifest = {
        "month": month.name,
        "made_at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "version": __version__,
        "files": files,
    }
    write_private(target / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return manifest


async def _write_table(
    connection: PrimaryConnection, table: str, month: Month, target: Path, progress: Progress
) -> dict[str, Any]:
    column, order = TABLES[table]
    names = {"table": table, "column": column, "order": order}
    total: int = await connection.fetchval(_COUNT.format(**names), month.begin, month.end)
    path = target / f"{table}.{FORMAT}"
    rows = 0
    path.touch(mode=0o600)
    # Without a name and a time in its head, equal rows give equal bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        cursor = connection.cursor(_ROWS.format(**names), month.begin, month.end, prefetch=ROWS_AT_ONCE)
        async for row in cursor:
            packed.write(row[0].encode() + b"\n")
            rows += 1
            if not rows % ROWS_AT_ONCE:
                progress(table, rows, total)
        packed.close()
        file.flush()
        os.fsync(file.fileno())
    progress(table, rows, total)
    return {"name": path.name, "rows": rows, "bytes": path.stat().st_size, "sha256": _digest(path)}


def verify(folder: Path, progress: Progress) -> list[Archived]:
    """Check every file of every month in ``folder`` against its manifest; returns the months. Raises
    ArchiveError for the first difference."""
    months = found(folder)
    if not months:
        raise ArchiveError(f"{folder} has no archived month")
    for month in months:
        manifest = _read(folder / month.month)
        listed = {each["name"] for each in manifest["files"]}
        missing = {f"{table}.{FORMAT}" for table in TABLES} - listed
        if missing and manifest["version"] == __version__:
            raise ArchiveError(f"{month.month}: the manifest does not list {min(missing)}")
        for each in manifest["files"]:
            _verify_file(folder / month.month, each)
            progress(f"{month.month} {each['name']}", each["rows"], each["rows"])
    return months


def _verify_file(folder: Path, listed: dict[str, Any]) -> None:
    path, where = folder / listed["name"], f"{folder.name}/{listed['name']}"
    if not path.is_file():
        raise ArchiveError(f"{where} is missing")
    if path.stat().st_size != listed["bytes"] or _digest(path) != listed["sha256"]:
        raise ArchiveError(f"{where} has changed since it was written")
    try:
        with gzip.open(path, "rb") as lines:
            rows = sum(isinstance(json.loads(line), dict) for line in lines)
    except (OSError, EOFError, ValueError):
        raise ArchiveError(f"{where} cannot be read") from None
    if rows != listed["rows"]:
        raise ArchiveError(f"{where} has {rows} rows instead of {listed['rows']}")


def found(folder: Path) -> list[Archived]:
    """The complete months in ``folder``, oldest first. Raises ArchiveError for an unreadable manifest."""
    if not folder.is_dir():
        raise ArchiveError(f"{folder} is not a folder")
    months = []
    for path in sorted(folder.iterdir()):
        if _MONTH.fullmatch(path.name) and (path / MANIFEST).exists():
            manifest = _read(path)
            files = manifest["files"]
            months.append(
                Archived(
                    path.name,
                    manifest["made_at"],
                    manifest["version"],
                    sum(each["rows"] for each in files),
                    sum(each["bytes"] for each in files),
                )
            )
    return months


def _read(folder: Path) -> dict[str, Any]:
    """The manifest of a month."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["month"] != folder.name:
            raise ArchiveError(f"{folder / MANIFEST} is of {manifest['month']}")
        for each in manifest["files"]:
            if not all(isinstance(each[name], int) for name in ("rows", "bytes")):
                raise TypeError
            if Path(each["name"]).name != each["name"] or not isinstance(each["sha256"], str):
                raise TypeError
        found_manifest: dict[str, Any] = {
            "made_at": str(manifest["made_at"]),
            "version": str(manifest["version"]),
            "files": list(manifest["files"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        raise ArchiveError(f"{folder / MANIFEST} cannot be read") from None
    return found_manifest


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
