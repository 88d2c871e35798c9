"""Searches everything that an installation writes for canary values and secrets (G18).

The places are the logs, the metrics page, the answers of the API, Ray's files, a dump of the database and
Redis's data folder. The terminal output of ``stanchion up`` is not searched: it shows the log, and prints the
first clients' credentials on purpose.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final

import asyncpg

from ops.audit import Finding
from ops.chaos.environment.processes import descendants
from ops.chaos.leak_search import LeakSearch
from ops.chaos.rig import Rig
from ops.chaos.traffic.canaries import CONTROL, Canaries, holders, personal

PIECE_BYTES: Final = 4 * 1024 * 1024
_TEMP_DIR: Final = re.compile(r"--temp[_-]dir=(\S+)")
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"


async def find_leaks(rig: Rig, connection: asyncpg.Connection[asyncpg.Record]) -> list[Finding]:
    """One finding for each place. A place counts as searched only if its control value was found there."""
    canaries = rig.canaries
    crowds = (rig.crowd, rig.further_crowd)
    pans = [terminal.plastic.pan for crowd in crowds for terminal in crowd.terminals]
    metrics = await asyncio.to_thread(_get, rig.record["metrics_url"])
    answers = itertools.chain(canaries.answers, rig.callers.bodies())
    logs = _files(rig.var_dir / "log", rig.postgres.log.parent)
    places: list[tuple[str, bytes, Iterable[bytes]]] = [
        ("the logs", b'"event"', logs),
        ("the metrics", b"stanchion_decisions", [metrics]),
        ("API answers", CONTROL.encode(), answers),
        ("Ray's files", b"raylet", _files(*_temporary_folders(rig))),
        ("Redis's files", b"XADD", _files(rig.redis.data_dir)),
    ]
    searches = {
        name: _search(canaries, pans, control, {} if pieces is answers else holders())
        for name, control, pieces in places
    }
    for name, _, pieces in places:
        await asyncio.to_thread(_feed, searches[name], pieces)
    searches["a dump of the database"] = _search(canaries, pans, CONTROL.encode(), holders())
    async for piece in _dump(connection):
        await asyncio.to_thread(searches["a dump of the database"].feed, piece)
    return [_finding(canaries, name, search) for name, search in searches.items()]


def _search(canaries: Canaries, pans: list[str], control: bytes, holder: dict[str, bytes]) -> LeakSearch:
    values = canaries.keys | personal() | holder
    return LeakSearch(values, canaries.tokens, pans, canaries.cvv2s, control=control)


def _finding(canaries: Canaries, place: str, search: LeakSearch) -> Finding:
    count = len(canaries.keys) + len(canaries.tokens) + len(personal())
    searched_for = count if search.meaningful and canaries.rounds else 0
    return Finding(f"no canary in {place}", searched_for, len(search.found), tuple(sorted(search.found)))


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return bytes(answer.read())


def _feed(search: LeakSearch, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        search.feed(piece)


def _files(*roots: Path) -> Iterator[bytes]:
    """The contents of all files under ``roots``, in pieces."""
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if not path.is_file():
                continue
            try:
                with path.open("rb") as file:
                    while piece := file.read(PIECE_BYTES):
                        yield piece
            except OSError:
                continue  # deleted meanwhile


def _temporary_folders(rig: Rig) -> list[Path]:
    """The temporary folders of this installation's Ray, from the command lines of its processes."""
    folders: set[Path] = set()
    for pid in descendants(rig.installation.pid or 0):
        try:
            command = (
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
        except OSError:
            continue
        folders |= {Path(found) for found in _TEMP_DIR.findall(command)}
    return sorted(folders)


async def _dump(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[bytes]:
    """Every table in text format, as in a dump of the database."""
    for row in await connection.fetch(_TABLES):
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(8)
        copying = asyncio.create_task(_copy(connection, row["tablename"], pieces))
        while (piece := await pieces.get()) is not None:
            yield piece
        await copying


async def _copy(
    connection: asyncpg.Connection[asyncpg.Record], table: str, pieces: asyncio.Queue[bytes | None]
) -> None:
    held = bytearray()

    async def take(data: bytes) -> None:
        held.extend(data)
        if len(held) > PIECE_BYTES:
            await pieces.put(bytes(held))
            held.clear()

    try:
        await connection.copy_from_table(table, output=take)
    finally:
        await pieces.put(bytes(held))
        await pieces.put(None)
