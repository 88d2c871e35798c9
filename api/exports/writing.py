"""Writing exports in the background: each API server writes one at a time.

An export is one COPY statement on a connection of its own, so its rows are those of one instant. Its output
goes through a gzip stream into rows of ``export_chunks``; while a row is written, COPY waits. So memory is
bounded, whatever the size of the export.

The tenant with the fewest exports begun in the last hour comes first, so that no tenant waits behind all
exports of another one.

A server takes an export for ``EXPORT_LEASE_SECONDS`` and extends the lease while it writes, also while
PostgreSQL prepares the first row. When a server ends, another one starts the export over with the next
attempt; a server that lost its lease can write nothing more.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg
import msgspec
import structlog

from actors.periodic import PeriodicTask
from actors.primary import connect
from api.database.pool import connected, fetch_row, session
from api.exports.columns import COPY_OPTIONS, ExportKind, Format, planner_settings, statement
from api.exports.content import GZIP_WINDOW
from api.http.faults import CONNECTION_FAILURES
from api.services import Services
from engine.ids import first_id_at
from engine.instant import to_datetime, to_ms
from engine.limits import (
    EXPORT_ATTEMPTS_MAX,
    EXPORT_BYTES_MAX,
    EXPORT_CHUNK_BYTES,
    EXPORT_KEEP_HOURS,
    EXPORT_LEASE_SECONDS,
    EXPORT_PIECE_BYTES,
    EXPORT_POLL_SECONDS,
    EXPORT_SECONDS_MAX,
    PAGE_CLOCK_SLACK_MS,
)

CONNECT_SECONDS: Final = 10.0
KEEP_SECONDS: Final = EXPORT_LEASE_SECONDS / 5
"""Interval between extensions of a lease."""
COMPRESSION_LEVEL: Final = 1
"""The fastest: about 100 MB a second on one core."""
_LEASE: Final = f"now() + interval '{EXPORT_LEASE_SECONDS} seconds'"

_TAKE: Final = f"""
    UPDATE exports SET state = 'running', attempt = attempt + 1, lease_until = {_LEASE}, rows = 0, bytes = 0
    WHERE id = (
        SELECT id FROM exports e WHERE state = 'pending' OR (state = 'running' AND lease_until < now())
        ORDER BY (
            SELECT count(*) FROM exports s
            WHERE s.tenant_id = e.tenant_id AND s.attempt > 0
                AND s.created_at > now() - interval '1 hour'), id
        LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id::text, tenant_id::text, live, kind, format, from_at, to_at, attempt
"""
_FENCE: Final = "id = $1::uuid AND attempt = $2 AND state = 'running'"
_BEGIN: Final = f"UPDATE exports SET as_of = $3, rows_estimated = $4 WHERE {_FENCE} RETURNING 1"
_PROGRESS: Final = f"""
    WITH fenced AS (
        UPDATE exports SET rows = $5, bytes = $6, lease_until = {_LEASE} WHERE {_FENCE} RETURNING id)
    INSERT INTO export_chunks (export_id, attempt, number, data) SELECT id, $2, $3, $4 FROM fenced
    RETURNING 1
"""
_EXTEND: Final = f"UPDATE exports SET lease_until = {_LEASE} WHERE {_FENCE} RETURNING 1"
_COMPLETE: Final = f"""
    UPDATE exports SET state = 'completed', completed_at = $3, rows = $4, sha256 = $5, lease_until = NULL
    WHERE {_FENCE}
"""
_FAIL: Final = f"""
    UPDATE exports SET state = 'failed', failure = $3, completed_at = $4, lease_until = NULL WHERE {_FENCE}
"""
_CLEAR: Final = """
    DELETE FROM export_chunks c USING exports e
    WHERE c.export_id = $1::uuid AND e.id = c.export_id AND (c.attempt < e.attempt OR e.state = 'failed')
"""
_EXPIRE: Final = """
    DELETE FROM exports
    WHERE id IN (SELECT id FROM exports WHERE created_at < $1 ORDER BY created_at LIMIT 10)
"""
_NOW: Final = "SELECT now()"

_log = structlog.get_logger("api.exports")


class Export(msgspec.Struct, frozen=True):
    """An export that this server has taken."""

    id: str
    tenant_id: str
    live: bool
    kind: ExportKind
    format: Format
    from_at: Any
    to_at: Any
    attempt: int


class _LeaseLostError(Exception):
    """Another server has taken the export, or it was deleted."""


class _TooLargeError(Exception):
    """The content exceeds ``EXPORT_BYTES_MAX``."""


def export_writer(services: Services) -> PeriodicTask:
    """Writes exports, one after the other. A failed step is logged and the next one tries again."""

    async def step() -> float | None:
        return 0.0 if await write_next(services) else None

    return PeriodicTask("export-writer", step, EXPORT_POLL_SECONDS, tolerated=(Exception,))


async def write_next(services: Services) -> bool:
    """Write the oldest export that waits, and delete expired ones; whether there was one to write."""
    async with connected(services.pool) as connection:
        expired = services.clock.now_ms() - EXPORT_KEEP_HOURS * 3_600_000
        await connection.execute(_EXPIRE, to_datetime(expired))
        row = await connection.fetchrow(_TAKE)
    if row is None:
        return False
    export = Export(**row)
    failure = await _outcome(services, export)
    if failure is not None:
        await _fail(services, export, failure)
    return True


async def _outcome(services: Services, export: Export) -> str | None:
    """Write ``export``; the code of its failure, or ``None``. A failure of a server or a connection is none:
    the export is started over."""
    if export.attempt > EXPORT_ATTEMPTS_MAX:
        return "interrupted"
    try:
        async with asyncio.timeout(EXPORT_SECONDS_MAX) as limit, _kept(services, export):
            await _write(services, export)
    except _LeaseLostError:
        _log.info("export_lease_lost", export=export.id)
    except _TooLargeError:
        return "too_large"
    except asyncpg.QueryCanceledError:
        return "too_slow"
    except CONNECTION_FAILURES as failure:
        if limit.expired():
            return "too_slow"
        _log.warning("export_interrupted", export=export.id, error=type(failure).__name__)
    except asyncpg.PostgresError as failure:
        _log.error("export_failed", export=export.id, sqlstate=failure.sqlstate)
        return "internal_error"
    return None


async def _fail(services: Services, export: Export, failure: str) -> None:
    at = to_datetime(services.clock.now_ms())
    async with connected(services.pool) as connection:
        await connection.execute(_FAIL, export.id, export.attempt, failure, at)
        await connection.execute(_CLEAR, export.id)


@asynccontextmanager
async def _kept(services: Services, export: Export) -> AsyncIterator[None]:
    """Extend the lease during the block."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            # The next extension, or the next row, tries again.
            with suppress(*CONNECTION_FAILURES):
                await fetch_row(services.pool, _EXTEND, export.id, export.attempt)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _write(services: Services, export: Export) -> None:
    async with connected(services.pool) as connection:
        await connection.execute(_CLEAR, export.id)
    settings = (
        session(EXPORT_SECONDS_MAX * 1000)
        | planner_settings(export.kind)
        | {
            "application_name": "stanchion-export",
            "idle_in_transaction_session_timeout": "0",
        }
    )
    reader = await connect(services.settings.database_dsn, "stanchion-export", CONNECT_SECONDS, settings)
    try:
        await _copy(services, export, reader)
    finally:
        # Not closed: that waits for the server, which may be in the middle of COPY.
        reader.terminate()


async def _copy(services: Services, export: Export, reader: asyncpg.Connection[Any]) -> None:
    query = statement(export.kind, export.format)
    slack_ms = PAGE_CLOCK_SLACK_MS
    ids = first_id_at(max(0, to_ms(export.from_at) - slack_ms)), first_id_at(to_ms(export.to_at) + slack_ms)
    values = (export.tenant_id, export.live, export.from_at, export.to_at, *ids)
    async with reader.transaction(isolation="repeatable_read", readonly=True):
        estimated = await _estimate(reader, query, values)
        as_of = await reader.fetchval(_NOW)
        if await fetch_row(services.pool, _BEGIN, export.id, export.attempt, as_of, estimated) is None:
            raise _LeaseLostError
        content = Content(services, export)
        options: Any = COPY_OPTIONS[export.format]
        done = await reader.copy_from_query(query, *values, output=content.add, **options)
    rows = int(done.rpartition(" ")[2])
    await content.finish(rows)


async def _estimate(reader: asyncpg.Connection[Any], query: str, values: tuple[Any, ...]) -> int:
    """The planner's estimate of the number of rows."""
    plan = msgspec.json.decode(await reader.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *values))
    return int(plan[0]["Plan"]["Plan Rows"])


class Content:
    """The gzip stream of one attempt, written row by row."""

    def __init__(self, services: Services, export: Export) -> None:
        self._services = services
        self._export = export
        self._stream = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
        self._digest = hashlib.sha256()
        self._pending = bytearray()
        self._packed = bytearray()
        self._number = 0
        self._rows = 0
        self._bytes = 0

    async def add(self, data: bytes) -> None:
        """Take output of COPY. Returns when there is room for more."""
        self._pending += data
        if len(self._pending) >= EXPORT_PIECE_BYTES:
            await self._pack()
        if len(self._packed) >= EXPORT_CHUNK_BYTES:
            await self._store()

    async def finish(self, rows: int) -> None:
        """Store the rest; then the export is completed."""
        await self._pack()
        self._packed += self._stream.flush()
        self._rows = rows
        await self._store()
        at = to_datetime(self._services.clock.now_ms())
        async with connected(self._services.pool) as connection:
            await connection.execute(
                _COMPLETE, self._export.id, self._export.attempt, at, rows, self._digest.digest()
            )

    async def _pack(self) -> None:
        piece, self._pending = bytes(self._pending), bytearray()
        self._bytes += len(piece)
        # A text with line breaks is counted too often; the number at the end is exact.
        self._rows += piece.count(b"\n")
        if self._bytes > EXPORT_BYTES_MAX:
            raise _TooLargeError
        # In a thread, so that the server goes on answering.
        self._packed += await asyncio.to_thread(self._compressed, piece)

    def _compressed(self, piece: bytes) -> bytes:
        self._digest.update(piece)
        return self._stream.compress(piece) + self._stream.flush(zlib.Z_SYNC_FLUSH)

    async def _store(self) -> None:
        data, self._packed = bytes(self._packed), bytearray()
        values = (self._export.id, self._export.attempt, self._number, data, self._rows, self._bytes)
        if await fetch_row(self._services.pool, _PROGRESS, *values) is None:
            raise _LeaseLostError
        self._number += 1
