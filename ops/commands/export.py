"""``stanchion export``: write transactions, ledger entries, decisions or stand-ins to a file."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Final

import httpx2

from ops.commands.progress import Progress, no_progress
from stanchion import Client
from stanchion.records import Export, ExportFormat, ExportKind

POLL_SECONDS: Final = 0.2
PIECE_BYTES: Final = 256 * 1024


class ExportError(Exception):
    """The export cannot be written. The message is one line."""


def export(
    client: Client,
    http: httpx2.Client,
    kind: ExportKind,
    *,
    from_: str,
    to: str,
    format_: ExportFormat,
    path: Path,
    progress: Progress = no_progress,
) -> Export:
    """Create an export, wait for it and write its content to ``path``, which must not exist. ``http`` has the
    API's address.

    Raises ExportError, and StanchionError when the API refuses the export.
    """
    if path.exists():
        raise ExportError(f"{path} exists already")
    written = _completed(client, client.exports.create(kind, from_, to, format_=format_), progress)
    partial = path.with_name(f".{path.name}.part")
    try:
        _download(http, written, partial, progress)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return written


def _completed(client: Client, created: Export, progress: Progress) -> Export:
    found = created
    while found["state"] in ("pending", "running"):
        progress("writing", found["rows"], found["rows_estimated"])
        time.sleep(POLL_SECONDS)
        found = client.exports.get(created["id"])
    if found["state"] == "failed":
        raise ExportError(f"the export has failed: {found['failure']}")
    progress("writing", found["rows"], found["rows"])
    return found


def _download(http: httpx2.Client, written: Export, path: Path, progress: Progress) -> None:
    """Write the content to ``path``, and compare its digest with the API's."""
    address = written["download"]
    assert address is not None, "completed exports have an address"
    digest, done = hashlib.sha256(), 0
    try:
        with path.open("wb") as file, http.stream("GET", address["url"]) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes(PIECE_BYTES):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                progress("downloading", done, written["bytes"])
    except OSError as failure:
        raise ExportError(f"{path.parent} cannot be written: {failure.strerror}") from None
    except httpx2.HTTPError as failure:
        raise ExportError(f"the download was interrupted: {type(failure).__name__}") from None
    if digest.hexdigest() != written["sha256"]:
        raise ExportError("the downloaded content is not complete; repeat the command")
