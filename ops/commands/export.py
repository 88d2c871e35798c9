"""``stanchion export``: write transactions, ledger entries, decisions or stand-ins to a file."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

from ops.commands.progress import Progress, no_progress
from stanchion import Client
from stanchion.records import Export, ExportFormat, ExportKind

POLL_SECONDS: Final = 0.2


class ExportError(Exception):
    """The export cannot be written. The message is one line."""


def export(
    client: Client,
    kind: ExportKind,
    *,
    from_: str,
    to: str,
    format_: ExportFormat,
    path: Path,
    progress: Progress = no_progress,
) -> Export:
    """Create an export, wait for it and write its content to ``path``, which must not exist.

    Raises ExportError, and StanchionError when the API refuses the export or the download fails.
    """
    if path.exists():
        raise ExportError(f"{path} exists already")
    written = _completed(client, client.exports.create(kind, from_, to, format_=format_), progress)
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            client.exports.download(written["id"], file, progress=partial(progress, "downloading"))
        unfinished.replace(path)
    except OSError as failure:
        raise ExportError(f"{path.parent} cannot be written: {failure.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
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
