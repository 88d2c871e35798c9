"""Readiness checks: all parts of the installation are checked concurrently, each within one second.

The kernel accepts connections for a frozen process, so each check needs an answer of the part itself. The
page ``/readyz`` and the figure ``stanchion_ready`` show the same result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp

from actors.network.links.status import decode_statuses
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.primary import CannotConnectError, connect

Check = Callable[[], Awaitable[object]]
"""Returns when its part is ready; raises otherwise. The text of a NotReadyError is shown."""


class NotReadyError(Exception):
    """Why a part is not ready: one line without values."""


_NO_ANSWER: Final = "no answer"
_given_up: Final[set[asyncio.Task[object]]] = set()


async def not_ready(checks: Mapping[str, Check], seconds: float) -> dict[str, str]:
    """The reason for each part that is not ready, in the order of ``checks``. Returns within ``seconds`` even
    if a check hangs."""
    tasks = {part: asyncio.ensure_future(check()) for part, check in checks.items()}
    if tasks:
        _, late = await asyncio.wait(tasks.values(), timeout=seconds)
        for task in late:
            task.cancel()
            _given_up.add(task)
            task.add_done_callback(_forget)
    reasons = {part: _reason(task) for part, task in tasks.items()}
    return {part: reason for part, reason in reasons.items() if reason is not None}


def _reason(task: asyncio.Task[object]) -> str | None:
    if not task.done() or task.cancelled():
        return _NO_ANSWER
    match task.exception():
        case None:
            return None
        case NotReadyError() as failure:
            return str(failure)
        case PeerGoneError() | ConnectionRefusedError():
            return "not running"
        case PeerFailedError():
            return "its role does not start"
        case TimeoutError():
            return _NO_ANSWER
        case CannotConnectError() as failure:
            return str(failure)
        case failure:
            return type(failure).__name__


def _forget(task: asyncio.Task[object]) -> None:
    _given_up.discard(task)
    if not task.cancelled():
        task.exception()


# --- checks of single parts -----------------------------------------------------------------------------


async def accepts(host: str, port: int) -> None:
    """Check that the port accepts connections."""
    _, writer = await asyncio.open_connection(host, port)
    writer.transport.abort()


async def listens(statuses: Callable[[], Awaitable[bytes]]) -> None:
    """Check that every link that listens does so, unless it is signed off. ``statuses`` returns the answer
    of the edge (``actors.network.links.status``)."""
    for status in decode_statuses(await statuses()):
        if status.direction == "listen" and status.state == "down":
            raise NotReadyError(f"link {status.name} does not listen")


async def answers_http(url: str) -> None:
    """Check that ``GET url`` returns 200. The certificate is not verified: the listener is our own."""
    # No time limit here: ``not_ready`` has one.
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        if answer.status != 200:
            raise NotReadyError(f"answers {answer.status}")


async def answers_sql(dsn: str, seconds: float) -> None:
    """Check that a server that accepts writes answers a statement."""
    connection = await connect(dsn, "stanchion-ready", seconds, {}, command_seconds=seconds)
    try:
        await connection.fetchval("SELECT 1")
    finally:
        # An orderly close can hang while the server is frozen.
        connection.terminate()


async def all_owned(
    table: Callable[[], Awaitable[RoutingTable]], ping: Callable[[str], Awaitable[object]]
) -> None:
    """Check that every shard has an owner and that every owner answers."""
    owners = (await table()).owners
    if unowned := sum(owner is None for owner in owners):
        raise NotReadyError(f"{unowned} have no owner")
    await asyncio.gather(*(ping(owner) for owner in sorted({owner for owner in owners if owner})))
