"""Operations on exports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import asyncpg
from fastapi import Query
from pydantic import Field, model_validator
from starlette.responses import Response

from api.database.pool import Connection, fetch_row
from api.exports.columns import ExportKind, Format
from api.exports.content import address
from api.http.answers import json_response
from api.http.fields import Id, Instant, InstantInput, example, shown_instant
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.http.windows import require_bounded, window_of
from api.operations.acts import Change, record_act
from api.operations.call import Call, KeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from engine.instant import to_datetime, to_text
from engine.limits import EXPORT_WINDOW_DAYS_MAX, EXPORTS_OPEN_MAX

router = new_router("Exports")

_SELECT: Final = """
    SELECT r.id::text, r.kind, r.format, r.from_at, r.to_at, r.state, r.failure, r.created_at, r.as_of,
           r.completed_at, r.rows_estimated, r.rows, r.bytes, r.sha256
    FROM exports r
"""
_FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('exports ' || $1, 0))"
_OPEN: Final = """
    SELECT count(*) FROM exports
    WHERE tenant_id = $1 AND live = $2 AND state IN ('pending', 'running')
"""
_INSERT: Final = """
    INSERT INTO exports (id, tenant_id, live, kind, format, from_at, to_at, state, created_at)
    VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, 'pending', $8)
"""


class ExportInput(Input):
    """An export to be written."""

    kind: ExportKind
    """`decisions` lists the increments of an authorization with the authorization, whatever their time."""
    from_: Annotated[InstantInput, Field(alias="from"), example("2026-11-01T00:00:00Z")]
    """The first instant of the window."""
    to: Annotated[InstantInput, example("2026-12-01T00:00:00Z")]
    """The end of the window, exclusive."""
    format: Format = "csv"

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Start (inclusive) and end (exclusive)."""
        return window_of(self.from_, self.to)

    @model_validator(mode="after")
    def _window(self) -> ExportInput:
        require_bounded(self.window, EXPORT_WINDOW_DAYS_MAX)
        return self


class DownloadView(View):
    """Where to download the content, without a token."""

    url: str
    """Relative to the address of the API (RFC 3986). It is a permission by itself: keep it secret."""
    expires_at: Instant
    """Get the export again for another address."""


class ExportView(View):
    """An export. It is deleted 24 hours after its creation."""

    id: Id
    kind: ExportKind
    format: Format
    from_: Annotated[Instant, Field(alias="from")]
    to: Instant
    state: Literal["pending", "running", "completed", "failed"]
    failure: Literal["too_large", "too_slow", "interrupted", "internal_error"] | None
    """`too_large` and `too_slow`: choose a shorter window. `interrupted`: several API servers that wrote it
    ended; create it again."""
    rows: int
    """Rows written so far; exact once it is completed."""
    rows_estimated: int | None
    bytes: int
    """Bytes of the content before compression."""
    sha256: str | None
    """SHA-256 of the content before compression, in hexadecimal."""
    as_of: Instant | None
    """The instant of the database of which the export shows the rows: later changes are not in it."""
    created_at: Instant
    completed_at: Instant | None
    download: DownloadView | None
    """Present once it is completed."""


@router.post(
    "/v1/exports", status_code=202, response_model=ExportView, responses=refusals("too-many-exports")
)
async def create_export(given: ExportInput, call: KeyedCall) -> Response:
    """Export transactions, ledger entries, decisions or stand-ins of a window of time.

    The export is written in the background; get it until its state is `completed`. It has the rows of one
    instant, oldest first. Amounts are decimal text, instants ISO 8601 in UTC. CSV has a header; a text that a
    spreadsheet could take for a formula begins with `'`.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        await connection.execute(_LOCK, f"{caller.tenant_id} {caller.live}")
        if await connection.fetchval(_OPEN, caller.tenant_id, caller.live) >= EXPORTS_OPEN_MAX:
            raise Refusal("too-many-exports")
        export_id, now = services.new_id(), to_datetime(services.clock.now_ms())
        await connection.execute(
            _INSERT, export_id, caller.tenant_id, caller.live, given.kind, given.format, *given.window, now
        )
        row = await connection.fetchrow(_FIND, export_id, caller.tenant_id, caller.live)
        assert row is not None, "just written in this transaction"
        shown = _show(row, call)
        asked = {name: shown[name] for name in ("kind", "format", "from", "to")}
        await record_act(connection, call, Change("export", export_id, None, asked))
        return json_response(202, shown)

    return await once(call.services, call.claim, work)


@router.get(
    "/v1/exports", response_model=page_model("Exports", ExportView), responses=refusals("invalid-cursor")
)
async def list_exports(query: Annotated[PageQuery, Query()], call: ReadCall) -> Response:
    """List exports, newest first."""
    return await page(
        call.services,
        call.caller,
        query,
        table="exports",
        select=_SELECT,
        filters={},
        show=lambda row: _show(row, call),
    )


@router.get("/v1/exports/{id}", response_model=ExportView, responses=refusals("not-found"))
async def get_export(export_id: PathId, call: ReadCall) -> Response:
    """Get an export, with a download address that works for an hour once it is completed.

    A download that was cut goes on with `Range: bytes=N-` and the `ETag` of the first answer in `If-Range`.
    """
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, export_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, _show(row, call))


def _show(row: asyncpg.Record, call: Call) -> dict[str, Any]:
    instants = {name: row[name] and shown_instant(row[name]) for name in ("as_of", "completed_at")}
    download = None
    if row["state"] == "completed":
        url, until_ms = address(call.services.vault, row["id"], call.services.clock.now_ms())
        download = {"url": url, "expires_at": to_text(until_ms)}
    return {
        **{name: row[name] for name in ("id", "kind", "format", "state", "failure", "rows", "bytes")},
        "from": shown_instant(row["from_at"]),
        "to": shown_instant(row["to_at"]),
        "rows_estimated": row["rows_estimated"],
        "sha256": row["sha256"] and row["sha256"].hex(),
        "created_at": shown_instant(row["created_at"]),
        **instants,
        "download": download,
    }
