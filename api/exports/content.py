"""The content of an export: one gzip stream in parts, and its download by a signed address.

The address is a permission by itself: it names the export and its own end, and a keyed hash proves that this
installation made it. Every API server can serve it.

A download that was cut can go on (RFC 9110, 14): the answer has an ``ETag``, and ``Range: bytes=N-`` gets the
content from byte N. With ``Accept-Encoding: gzip`` the bytes are those of the gzip stream, and the server
reads the parts that are left. Without it, the server unpacks all parts before them again.
"""

from __future__ import annotations

import hmac
import re
import zlib
from asyncio import to_thread
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from actors.vault import Vault
from api.database.pool import fetch_row
from api.http.problems import Refusal
from api.services import Services
from engine.ids import is_id
from engine.limits import EXPORT_ADDRESS_SECONDS, EXPORT_PIECE_BYTES

PATH: Final = "/v1/exports/{id}/content"
SIGNATURE_PURPOSE: Final = "export-address"
MEDIA_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
GZIP_WINDOW: Final = 31
"""``wbits`` of zlib for a gzip stream."""
_FROM: Final = re.compile(r"bytes=([0-9]{1,18})-", re.ASCII)
"""The ranges that are served. Others are ignored, as RFC 9110 allows: they get the whole content."""

_FIND: Final = """
    SELECT kind, format, attempt, bytes, ARRAY(
        SELECT octet_length(c.data) FROM export_chunks c
        WHERE c.export_id = e.id AND c.attempt = e.attempt ORDER BY c.number) AS parts
    FROM exports e WHERE id = $1::uuid AND state = 'completed'
"""
_CHUNK: Final = "SELECT data FROM export_chunks WHERE export_id = $1::uuid AND attempt = $2 AND number = $3"


def address(vault: Vault, export_id: str, now_ms: int) -> tuple[str, int]:
    """The download address, relative to the API's, and the instant at which it ends, in milliseconds."""
    until_ms = now_ms + EXPORT_ADDRESS_SECONDS * 1000
    path = PATH.replace("{id}", export_id)
    return f"{path}?expires={until_ms}&signature={_signature(vault, export_id, until_ms)}", until_ms


def _signature(vault: Vault, export_id: str, until_ms: int) -> str:
    return vault.digest(SIGNATURE_PURPOSE, f"{export_id}\0{until_ms}".encode()).hex()


def _valid(services: Services, export_id: str, query: Any) -> bool:
    """Whether the address was made here and has not ended."""
    given, signature = query.get("expires", ""), query.get("signature", "")
    if not (is_id(export_id) and given.isascii() and given.isdecimal() and len(given) <= 15):
        return False
    expected = _signature(services.vault, export_id, int(given))
    return hmac.compare_digest(expected, signature.encode("ascii", "replace").decode()) and (
        services.clock.now_ms() < int(given)
    )


class ContentGoneError(Exception):
    """The export was deleted during its download."""


async def download(request: Request) -> Response:
    """Serve the content. Raises ``Refusal`` 404 for every address that is not valid any more."""
    services: Services = request.app.state.services
    export_id = request.path_params["id"]
    row = None
    if _valid(services, export_id, request.query_params):
        row = await fetch_row(services.pool, _FIND, export_id)
    if row is None:
        raise Refusal("not-found", "The address is unknown or has ended. Get the export for a new one.")
    packed = "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{export_id}-{row["attempt"]}-{"gzip" if packed else "plain"}"'
    headers = {
        "Content-Disposition": f'attachment; filename="{row["kind"]}-{export_id}.{row["format"]}"',
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding",
        "Accept-Ranges": "bytes",
        "ETag": tag,
    }
    if packed:
        headers["Content-Encoding"] = "gzip"
    size = sum(row["parts"]) if packed else row["bytes"]
    first, status = _first(request, tag, size), 200
    if first is not None:
        headers["Content-Range"], status = f"bytes {first}-{size - 1}/{size}", 206
    numbers, skipped = range(len(row["parts"])), first or 0
    if packed:
        numbers, skipped = _parts_from(row["parts"], skipped)
    parts = _parts(services, export_id, row["attempt"], numbers)
    pieces = _without_first(skipped, parts if packed else _unpacked(parts))
    return StreamingResponse(pieces, status, headers, MEDIA_TYPES[row["format"]])


def _first(request: Request, tag: str, size: int) -> int | None:
    """The first byte of the range that the request asks for. ``None``: the whole content."""
    asked = _FROM.fullmatch(request.headers.get("range", ""))
    if asked is None or request.headers.get("if-range", tag) != tag:
        return None
    return int(asked[1]) if int(asked[1]) < size else None


def _parts_from(sizes: Sequence[int], first: int) -> tuple[range, int]:
    """The numbers of the parts from byte ``first`` on, and the bytes of the first of them before it."""
    number = 0
    while number < len(sizes) and first >= sizes[number]:
        first -= sizes[number]
        number += 1
    return range(number, len(sizes)), first


async def _without_first(skipped: int, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        if skipped < len(piece):
            yield piece[skipped:] if skipped else piece
        skipped = max(0, skipped - len(piece))


async def _parts(
    services: Services, export_id: str, attempt: int, numbers: Iterable[int]
) -> AsyncIterator[bytes]:
    for number in numbers:
        # A connection is taken for each part only: a slow reader holds none.
        row = await fetch_row(services.pool, _CHUNK, export_id, attempt, number)
        if row is None:
            # Ends the answer without its last part, so that no reader takes it for the whole content.
            raise ContentGoneError
        yield row["data"]


async def _unpacked(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The content without compression, in pieces of bounded size."""
    stream = zlib.decompressobj(GZIP_WINDOW)
    async for part in parts:
        rest = part
        while rest:
            piece = await to_thread(stream.decompress, rest, EXPORT_PIECE_BYTES)
            rest = stream.unconsumed_tail
            if piece:
                yield piece
    last = stream.flush()
    if last:
        yield last
