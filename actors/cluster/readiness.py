"""Readiness: every part of the installation is asked at once, and each has a second to answer.

A part that is frozen accepts connections (the kernel does that) and answers nothing, so each check needs an
answer of the part itself. The page and the figure ``stanchion_ready`` show the same result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp
import asyncpg

from actors.peers import PeerFailedError, PeerGoneError, RoutingTable

Check = Callable[[], Awaitable[object]]
"""Returns when its part is ready; raises otherwise. NotReadyError's text is shown."""


class NotReadyError(Exception):
    """Why a part is not ready: one line without values."""


_NO_ANSWER: Final = "no answer"
_given_up: Final[set[asyncio.Task[object]]] = set()


async def not_ready(checks: Mapping[str, Check], seconds: float) -> dict[str, str]:
    """The reason of each part that is not ready, in the order of ``checks``; returns within ``seconds``
    whatever a check does."""
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
        case failure:
            return type(failure).__name__


def _forget(task: asyncio.Task[object]) -> None:
    _given_up.discard(task)
    if not task.cancelled():
        task.exception()


# --- the parts that are not processes of Ray ------------------------------------------------------------


async def accepts(host: str, port: int) -> None:
    """The port takes connections."""
    _, writer = await asyncio.open_connection(host, port)
    writer.transport.abort()


async def answers_http(url: str) -> None:
    """``GET url`` is 200. A certificate is not verified: what is asked is our own listener."""
    # Without a limit of its own: the caller has one.
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        if answer.status != 200:
            raise NotReadyError(f"answers {answer.status}")


async def answers_sql(dsn: str, seconds: float) -> None:
    """The database answers a statement."""
    connection = await asyncpg.connect(dsn, timeout=seconds, command_timeout=seconds)
    try:
        await connection.fetchval("SELECT 1")
    finally:
        # Closing politely can take for ever where the server is frozen.
        connection.terminate()


async def all_owned(
    table: Callable[[], Awaitable[RoutingTable]], ping: Callable[[str], Awaitable[object]]
) -> None:
    """Every shard has an owner, and every owner answers."""
    owners = (await table()).owners
    if unowned := sum(owner is None for owner in owners):
        raise NotReadyError(f"{unowned} have no owner")
    await asyncio.gather(*(ping(owner) for owner in sorted({owner for owner in owners if owner})))
