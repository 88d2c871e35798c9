"""The way from a command to the supervisor that runs: a door (``actors.cluster.lines``) whose name stands in
a file that only the installation's user can read.

What takes long is begun by one call and followed by others, line by line, so that a command which is
interrupted interrupts nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from actors.cluster.lines import Door, Line, dial
from actors.peers import PeerFailedError, PeerGoneError
from ops.embedded.passwords import write_private

DOOR_FILE: Final = "door"
WAIT_SECONDS: Final = 10.0
"""How long one call of a follower waits for another line."""

Say = Callable[[str], None]
Restart = Callable[[Say], Awaitable[None]]


class ControlError(Exception):
    """The supervisor cannot be asked, or could not do it. The message is one line."""


class Progress(msgspec.Struct):
    """What has been said since a line, and whether that is all. ``failure`` is why it was the end."""

    lines: list[str]
    over: bool
    failure: str | None


_log = structlog.get_logger(__name__)
_decode = msgspec.msgpack.Decoder(Progress).decode
_decode_int = msgspec.msgpack.Decoder(int).decode
_encode = msgspec.msgpack.encode


class Control:
    """The supervisor's side. ``expected``: failures whose text may be shown."""

    def __init__(self, var_dir: Path, restart: Restart, expected: tuple[type[Exception], ...]) -> None:
        self._file = var_dir / DOOR_FILE
        self._restart = restart
        self._expected = expected
        self._door = Door(self._answer)
        self._lines: list[str] = []
        self._said = asyncio.Condition()
        self._failure: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._over = True
        self._tellers: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Let commands in, where doors exist."""
        await self._door.open()
        write_private(self._file, self._door.name)

    async def close(self) -> None:
        """Take no more; what is under way ends here."""
        self._file.unlink(missing_ok=True)
        await self._door.close()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _answer(self, method: str, payload: bytes) -> bytes:
        if method == "restart":
            return self._begin()
        if method == "follow":
            return _encode(await self._after(_decode_int(payload)))
        raise ValueError(method)

    def _begin(self) -> bytes:
        """One at a time: whoever asks meanwhile follows the one that is under way."""
        if self._over:
            self._lines.clear()
            self._failure, self._over = None, False
            self._work = asyncio.create_task(self._run())
        return b""

    async def _run(self) -> None:
        try:
            await self._restart(self._say)
        except self._expected as failure:
            self._failure = str(failure)
        except Exception as fault:  # noqa: BLE001 - the supervisor goes on, and whoever asked must hear of it
            _log.exception("restart_failed")
            self._failure = type(fault).__name__
        finally:
            self._over = True
            await self._tell()

    def _say(self, line: str) -> None:
        self._lines.append(line)
        teller = asyncio.get_running_loop().create_task(self._tell())
        self._tellers.add(teller)
        teller.add_done_callback(self._tellers.discard)

    async def _tell(self) -> None:
        async with self._said:
            self._said.notify_all()

    async def _after(self, number: int) -> Progress:
        # Where nothing new is said, that is an answer too.
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS), self._said:
                await self._said.wait_for(lambda: self._over or len(self._lines) > number)
        return Progress(self._lines[number:], self._over, self._failure)


async def restart(var_dir: Path, say: Say) -> None:
    """Have the supervisor of ``var_dir`` restart everything, and ``say`` what it says. Raises
    ControlError."""
    line = await _line(var_dir)
    heard = 0
    try:
        await line.call("restart", b"")
        while True:
            progress = _decode(await line.call("follow", _encode(heard)))
            for each in progress.lines:
                say(each)
            heard += len(progress.lines)
            if progress.over:
                break
    except (PeerGoneError, PeerFailedError):
        raise ControlError("the supervisor has ended") from None
    finally:
        line.close()
    if progress.failure is not None:
        raise ControlError(progress.failure)


async def _line(var_dir: Path) -> Line:
    try:
        name = (var_dir / DOOR_FILE).read_text()
    except OSError:
        raise ControlError(f"no installation runs in {var_dir}") from None
    line = await dial("supervisor", name, lambda _line: None)
    if line is None:
        raise ControlError(f"the installation in {var_dir} cannot be reached from here")
    return line
