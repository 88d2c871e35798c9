"""`stanchion links`: the state of every link, and signing links off and on.

A sign-off is a row in the database, so it holds for every edge, and after a restart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from actors.network.links.entry import LinkEntry
from actors.network.links.status import LinkStatus
from engine.limits import LINK_DRAIN_SECONDS, LINK_SIGN_OFF_POLL_SECONDS
from ops.database.operator_connection import connect_operator

WAIT_SECONDS_MAX: Final = LINK_DRAIN_SECONDS + 10 * LINK_SIGN_OFF_POLL_SECONDS
POLL_SECONDS: Final = 0.25
_COLUMNS: Final = (
    "LINK",
    "EDGE",
    "MODE",
    "ADDRESS",
    "STATE",
    "CONNECTIONS",
    "SIGNED ON",
    "IN FLIGHT",
    "ANSWERS A MINUTE",
)
_SIGN_OFF: Final = "INSERT INTO link_sign_offs (name) VALUES ($1) ON CONFLICT DO NOTHING"
_SIGN_ON: Final = "DELETE FROM link_sign_offs WHERE name = $1"

Read = Callable[[], Awaitable[list[LinkStatus]]]


class LinksCommandError(Exception):
    """The command cannot be carried out. The message is one line."""


def check_name(name: str, entries: Sequence[LinkEntry]) -> None:
    """Raise ``LinksCommandError`` unless a link has this name."""
    names = [entry.name for entry in entries]
    if name not in names:
        raise LinksCommandError(f"there is no link {name}; the links are {', '.join(names)}")


async def record_sign_off(dsn: str, name: str, *, signed_off: bool) -> None:
    """Record that the link ``name`` is, or is not, signed off."""
    connection = await connect_operator(dsn)
    try:
        await connection.execute(_SIGN_OFF if signed_off else _SIGN_ON, name)
    finally:
        await connection.close(timeout=10)


async def wait_for(name: str, read: Read, *, signed_off: bool, seconds: float = WAIT_SECONDS_MAX) -> None:
    """Wait until every edge has drained the link ``name``, or has opened it again. Raises
    ``LinksCommandError`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        states = {status.edge: status.state for status in await read() if status.name == name}
        if all((state == "signed_off") == signed_off and state != "draining" for state in states.values()):
            return
        if time.monotonic() > deadline:
            late = ", ".join(f"{edge} is {state}" for edge, state in states.items())
            raise LinksCommandError(f"recorded, but not every edge has followed: {late}")
        await asyncio.sleep(POLL_SECONDS)


def table(statuses: Sequence[LinkStatus]) -> list[str]:
    """The lines that show ``statuses``: one for each link at each edge, then its answers, refusals and last
    error."""
    rows = [_COLUMNS, *map(_row, statuses)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = []
    for row, status in zip(rows, [None, *statuses], strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
        lines += [] if status is None else _details(status)
    return lines


def _row(status: LinkStatus) -> tuple[str, ...]:
    wanted = "" if status.connections_wanted is None else f"/{status.connections_wanted}"
    return (
        status.name,
        status.edge,
        status.mode,
        f"{'from' if status.direction == 'listen' else 'to'} {status.address}{' TLS' if status.tls else ''}",
        status.state,
        f"{status.connections}{wanted}",
        str(status.signed_on),
        str(status.in_flight),
        str(sum(status.per_minute.values())),
    )


def _details(status: LinkStatus) -> list[str]:
    lines = []
    if status.per_minute:
        lines.append(f"    answers a minute: {_counts(status.per_minute)}")
    if status.refused:
        lines.append(f"    refused: {_counts(status.refused)}")
    if status.last_error is not None:
        at = datetime.fromtimestamp(status.last_error_ms / 1000, UTC)
        lines.append(f"    last error: {status.last_error} ({at:%Y-%m-%d %H:%M:%S} UTC)")
    return lines


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items()))
