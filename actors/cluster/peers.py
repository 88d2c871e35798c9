"""``actors.peers.Peers`` over Ray: handles are looked up once and kept, errors of Ray become
``PeerGoneError``. Ray is asked once for each life of a process where its door is; calls then go through the
door, if the process is on this node (``lines``), and through Ray if not."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import RayError, RayTaskError

from actors.cluster.beside import in_thread
from actors.cluster.lines import Line, dial
from actors.cluster.nodes import here
from actors.cluster.session import namespace
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.settings import Settings

COORDINATOR: Final = "coordinator"
PING: Final = "ping"
"""The one method that every process answers by itself."""
PARK: Final = "park"
"""... and the one that none ever answers: its error is how the death of a process is heard at once, from the
kernel where there is a line to it."""

_decode_table = msgspec.msgpack.Decoder(RoutingTable).decode
_encode = msgspec.msgpack.encode


class RayPeers:
    """The other processes of this installation."""

    def __init__(self, settings: Settings) -> None:
        self._namespace = namespace(settings)
        self._handles: dict[str, Any] = {}
        self._lines: dict[str, Line | None] = {}
        """``None``: the door cannot be reached from here."""
        self._dialling: dict[str, asyncio.Task[Line | None]] = {}
        self._finding: dict[str, asyncio.Task[Any]] = {}
        self._session = 0
        """Counts the Rays that have ended; handles and lines of an earlier one are worth nothing."""

    async def execute(self, incarnation: str, parcel: bytes) -> bytes:
        return await self.call(incarnation, "execute", parcel)

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        return await self.call(incarnation, "collect", caller)

    async def table(self, after: int) -> RoutingTable:
        return _decode_table(await self.call(COORDINATOR, "table", _encode(after)))

    async def publish_programme(self, programme: bytes) -> None:
        await self.call(COORDINATOR, "publish_programme", programme)

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        line = self._lines[role] if role in self._lines else await self._line(role)
        if line is None:
            answer: bytes = await self._remote(role, "call", method, payload)
            return answer
        return await line.call(method, payload)

    async def ping(self, role: str) -> str:
        """Returns when the process serves; its role is started if need be. The answer is the process's
        ``whereabouts``."""
        return (await self.call(role, PING, b"")).decode()

    async def death(self, role: str) -> None:
        """Raises PeerGoneError as soon as the process has ended."""
        await self.call(role, PARK, b"")

    async def ask(self, role: str, method: str) -> Any:
        """Call a method of the process itself (``figures``, ``stop``) instead of its role, through
        Ray."""
        return await self._remote(role, method)

    async def _remote(self, role: str, method: str, *arguments: Any) -> Any:
        handle = self._handles.get(role) or await self._find(role)
        try:
            reply = getattr(handle, method).remote(*arguments)
        except Exception:  # noqa: BLE001 - Ray raises plain ones for handles of a Ray that has ended
            self._handles.pop(role, None)
            raise PeerGoneError(role) from None
        try:
            return await reply
        except RayTaskError as failure:
            # Its text is a traceback with whatever values stood in it.
            raise PeerFailedError(f"{role}: {type(failure.cause).__name__}") from None
        except RayError:
            # The process has died, or Ray itself.
            self._handles.pop(role, None)
            self._lines.pop(role, None)
            raise PeerGoneError(role) from None

    def kill(self, role: str, *, again: bool = False) -> None:
        """End a process at once; Ray starts it anew only if ``again``. Unknown ones are dead already."""
        line, handle = self._lines.pop(role, None), self._handles.pop(role, None)
        if handle is not None:
            ray.kill(handle, no_restart=not again)
        if line is not None:
            line.close()

    def forget(self) -> None:
        """Drop everything that is known of a Ray that has ended. Callers get PeerGoneError."""
        self._session += 1
        lines, dialling = tuple(self._lines.values()), tuple(self._dialling.values())
        self._handles.clear()
        self._lines.clear()
        self._finding.clear()
        for task in dialling:
            task.cancel()
        for line in lines:
            if line is not None:
                line.close()

    async def _line(self, role: str) -> Line | None:
        """The line to ``role``; whoever asks meanwhile waits for the same one."""
        dialling = self._dialling.get(role)
        if dialling is None:
            dialling = self._dialling[role] = asyncio.create_task(self._dial(role))
            dialling.add_done_callback(partial(self._dialled, role))
        try:
            return await asyncio.shield(dialling)
        except asyncio.CancelledError:
            if dialling.cancelled() and not cancelling():
                raise PeerGoneError(role) from None
            raise

    async def _dial(self, role: str) -> Line | None:
        """The process tells its door once its role serves, so this is also what makes it start."""
        session = self._session
        door = await self._remote(role, "door", here())
        line = await dial(role, door, partial(self._hung_up, role))
        if session != self._session:
            if line is not None:
                line.close()
            raise PeerGoneError(role)
        self._lines[role] = line
        return line

    def _dialled(self, role: str, dialling: asyncio.Task[Line | None]) -> None:
        if self._dialling.get(role) is dialling:
            del self._dialling[role]
        if not dialling.cancelled():
            dialling.exception()  # whoever asked may wait no longer

    def _hung_up(self, role: str, line: Line) -> None:
        if self._lines.get(role) is line:
            del self._lines[role]

    async def _find(self, role: str) -> Any:
        """Looking a name up blocks, so it happens beside the loop, once for all who ask meanwhile."""
        session = self._session
        finding = self._finding.get(role)
        if finding is None:
            finding = self._finding[role] = asyncio.create_task(in_thread(_look_up, role, self._namespace))
            finding.add_done_callback(partial(self._found, role))
        try:
            handle = await asyncio.shield(finding)
        except (ValueError, RuntimeError, RayError, TimeoutError):
            raise PeerGoneError(role) from None
        if session != self._session:
            raise PeerGoneError(role)
        self._handles[role] = handle
        return handle

    def _found(self, role: str, finding: asyncio.Task[Any]) -> None:
        if self._finding.get(role) is finding:
            del self._finding[role]
        if not finding.cancelled():
            finding.exception()  # whoever asked may wait no longer


def cancelling() -> bool:
    """Whether the task that runs is being cancelled itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _look_up(role: str, namespace: str) -> Any:
    """The handle of a name. Raises ValueError when Ray does not know it, or has not been started."""
    if not ray.is_initialized():
        raise ValueError(role)
    return ray.get_actor(role, namespace)
