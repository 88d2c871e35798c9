"""The control socket between ``stanchion`` commands and the running supervisor.

It is a Unix socket (``actors.cluster.unix_rpc``). Its name is in a file that only the installation user can
read. A command starts a long operation by one call and follows its progress by others, so interrupting the
command does not interrupt the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from actors.cluster.unix_rpc import UnixConnection, UnixServer, connect
from actors.network.links.status import METHOD, LinkStatus, decode_statuses, encode_statuses
from actors.peers import PeerFailedError, PeerGoneError
from ops.embedded.passwords import write_private

SOCKET_FILE: Final = "door"
"""Holds the socket's name. Not renamed: a command reads it while a supervisor of another release runs."""
WAIT_SECONDS: Final = 10.0
"""Maximum time that one ``follow`` call waits for another line."""

Report = Callable[[str], None]
"""Receives one line of progress."""
Restart = Callable[[Report], Awaitable[None]]
Links = Callable[[], Awaitable[list[LinkStatus]]]


class ControlError(Exception):
    """The supervisor cannot be reached, or its operation failed. The message is one line."""


class Progress(msgspec.Struct):
    """The lines since the caller's last one, and whether the operation is over. ``failure``: why it
    failed."""

    lines: list[str]
    over: bool
    failure: str | None


_log = structlog.get_logger(__name__)
_decode = msgspec.msgpack.Decoder(Progress).decode
_decode_int = msgspec.msgpack.Decoder(int).decode
_encode = msgspec.msgpack.encode


class ControlServer:
    """The supervisor's side. ``expected``: failures whose text callers may see. ``links`` returns the states
    of all links at all edges."""

    def __init__(
        self, var_dir: Path, restart: Restart, expected: tuple[type[Exception], ...], links: Links
    ) -> None:
        self._file = var_dir / SOCKET_FILE
        self._links = links
        self._restart = restart
        self._expected = expected
        self._server = UnixServer(self._answer)
        self._lines: list[str] = []
        self._changed = asyncio.Condition()
        self._failure: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._over = True
        self._notifications: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Accept commands, where local sockets exist."""
        await self._server.open()
        write_private(self._file, self._server.name)

    async def close(self) -> None:
        """Stop accepting commands, and cancel the running operation."""
        self._file.unlink(missing_ok=True)
        await self._server.close()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _answer(self, method: str, payload: bytes) -> bytes:
        if method == "restart":
            return self._begin()
        if method == "follow":
            return _encode(await self._after(_decode_int(payload)))
        if method == METHOD:
            return encode_statuses(await self._links())
        raise ValueError(method)

    def _begin(self) -> bytes:
        """One restart at a time: a second caller follows the running one."""
        if self._over:
            self._lines.clear()
            self._failure, self._over = None, False
            self._work = asyncio.create_task(self._run())
        return b""

    async def _run(self) -> None:
        try:
            await self._restart(self._report)
        except self._expected as failure:
            self._failure = str(failure)
        except Exception as failure:  # noqa: BLE001 - the supervisor continues; the caller gets the failure
            _log.exception("restart_failed")
            self._failure = type(failure).__name__
        finally:
            self._over = True
            await self._notify()

    def _report(self, line: str) -> None:
        self._lines.append(line)
        notification = asyncio.get_running_loop().create_task(self._notify())
        self._notifications.add(notification)
        notification.add_done_callback(self._notifications.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _after(self, number: int) -> Progress:
        # After the timeout the caller gets an empty answer.
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._over or len(self._lines) > number)
        return Progress(self._lines[number:], self._over, self._failure)


async def restart(var_dir: Path, report: Report) -> None:
    """Restart all processes of the installation in ``var_dir``; ``report`` gets each line of progress. Raises
    ControlError."""
    connection = await _connect(var_dir)
    received = 0
    try:
        await connection.call("restart", b"")
        while True:
            progress = _decode(await connection.call("follow", _encode(received)))
            for each in progress.lines:
                report(each)
            received += len(progress.lines)
            if progress.over:
                break
    except (PeerGoneError, PeerFailedError):
        raise ControlError("the supervisor has ended") from None
    finally:
        connection.close()
    if progress.failure is not None:
        raise ControlError(progress.failure)


async def links(var_dir: Path) -> list[LinkStatus]:
    """The states of all links of the running installation in ``var_dir``. Raises ControlError."""
    connection = await _connect(var_dir)
    try:
        return decode_statuses(await connection.call(METHOD, b""))
    except (PeerGoneError, PeerFailedError):
        raise ControlError("the supervisor has ended, or is of another version") from None
    finally:
        connection.close()


async def _connect(var_dir: Path) -> UnixConnection:
    try:
        name = (var_dir / SOCKET_FILE).read_text()
    except OSError:
        raise ControlError(f"no installation is running in {var_dir}") from None
    connection = await connect("supervisor", name, lambda _connection: None)
    if connection is None:
        raise ControlError(f"the installation in {var_dir} cannot be reached from this machine")
    return connection
