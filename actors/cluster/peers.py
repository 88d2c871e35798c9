"""``actors.peers.Peers`` over Ray and Unix sockets.

Handles are looked up once and cached; errors of Ray become ``PeerGoneError``. The first call to a process
asks Ray for the name of its socket. Later calls use the socket if the process is on this node (``unix_rpc``),
and Ray if not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import RayError, RayTaskError

from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.nodes import own_node
from actors.cluster.ray_session import namespace
from actors.cluster.unix_rpc import UnixConnection, connect
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.release import ReleaseError
from actors.settings import Settings
from engine.limits import PROGRAMME_PUBLISH_SECONDS, TABLE_SECONDS

COORDINATOR: Final = "coordinator"
STANDBY: Final = "coordinator-2"
COORDINATORS: Final = (COORDINATOR, STANDBY)
"""Either of them can lead (``leadership``). The other one refuses all calls."""
NOT_LEADING: Final = "NotLeadingError"
OTHER_SECONDS: Final = 1.0
"""Time that the second coordinator has to answer when the first cannot; callers then begin again."""
RETRY_SECONDS: Final = 0.05
SOCKET_NAME: Final = "door"
"""The method that returns a process's socket name; a protocol between releases (``Process.door``)."""
IDENTITY: Final = "whereabouts"
"""The method that returns a process's identity without starting its role; also a protocol between releases
(``Process.whereabouts``)."""
ORIGIN: Final = "origin"
"""The method by which a process says what it was made of, and its node. A supervisor that starts again keeps
the processes that it would make in the same way. Processes of the release before do not know it."""
PING: Final = "ping"
"""The method that every process answers itself."""
PARK: Final = "park"
"""The method that never returns: its error reports the death of a process at once, through the kernel where
there is a socket connection."""

_decode_table = msgspec.msgpack.Decoder(RoutingTable).decode
_encode = msgspec.msgpack.encode


class RayPeers:
    """The other processes of this installation."""

    def __init__(self, settings: Settings) -> None:
        self._namespace = namespace(settings)
        self._handles: dict[str, Any] = {}
        self._connections: dict[str, UnixConnection | None] = {}
        """``None``: the process has no socket that can be reached from here."""
        self._connecting: dict[str, asyncio.Task[UnixConnection | None]] = {}
        self._finding: dict[str, asyncio.Task[Any]] = {}
        self._session = 0
        """The number of Rays that have ended; handles and connections of an earlier one are invalid."""
        self._closed = False
        self._answers: set[asyncio.Future[Any]] = set()
        """The open calls through Ray."""

    async def execute(self, incarnation: str, batch: bytes) -> bytes:
        return await self.call(incarnation, "execute", batch)

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        return await self.call(incarnation, "collect", caller)

    async def prepare(self, incarnation: str) -> None:
        with suppress(PeerGoneError, PeerFailedError):
            if incarnation not in self._connections:
                await self._connection(incarnation)

    async def table(self, after: int) -> RoutingTable:
        """Both coordinators are asked, because the one that does not lead can lead at any moment."""
        calls = {asyncio.create_task(self.call(name, "table", _encode(after))) for name in COORDINATORS}
        pending: set[asyncio.Task[bytes]] = calls
        failure: BaseException | None = None
        try:
            while pending:
                seconds = TABLE_SECONDS if failure is None else OTHER_SECONDS
                done, pending = await asyncio.wait(
                    pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for call in done:
                    failure = call.exception()
                    if failure is None:
                        return _decode_table(call.result())
                if not done:
                    break
            raise failure or PeerGoneError(COORDINATOR)
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def publish_programme(self, programme: bytes) -> None:
        await self.coordinate("publish_programme", programme, PROGRAMME_PUBLISH_SECONDS)

    async def coordinate(self, method: str, payload: bytes, patience_seconds: float = 0.0) -> bytes:
        """Call the coordinator that leads. ``patience_seconds``: time in which a failed call is repeated, for
        methods that may be executed twice. Raises PeerGoneError and PeerFailedError."""
        deadline = time.monotonic() + patience_seconds
        while True:
            failures: list[Exception] = []
            for name in COORDINATORS:
                try:
                    return await self.call(name, method, payload)
                except (PeerGoneError, PeerFailedError) as failure:
                    failures.append(failure)
            if time.monotonic() >= deadline:
                # A refusal says nothing; the failure of the one that leads does.
                raise min(failures, key=lambda failure: NOT_LEADING in str(failure))
            await asyncio.sleep(RETRY_SECONDS)

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        """Call a method of the role. Raises PeerGoneError and PeerFailedError."""
        connection = self._connections[role] if role in self._connections else await self._connection(role)
        if connection is None:
            answer: bytes = await self._remote(role, "call", method, payload)
            return answer
        return await connection.call(method, payload)

    async def ping(self, role: str) -> str:
        """Start the role if necessary, and return when the process serves. Returns the process's identity
        (``process_state``)."""
        return (await self.call(role, PING, b"")).decode()

    async def death(self, role: str) -> None:
        """Raises PeerGoneError as soon as the process has ended."""
        await self.call(role, PARK, b"")

    async def ask(self, role: str, method: str) -> Any:
        """Call a method of the process (``figures``, ``stop``) and not of its role, through Ray."""
        return await self._remote(role, method)

    async def _remote(self, role: str, method: str, *arguments: Any) -> Any:
        handle = self._handles.get(role) or await self._find(role)
        if self._closed:
            raise PeerGoneError(role)
        try:
            answer = getattr(handle, method).remote(*arguments).as_future(_internal=True)
        except Exception:  # noqa: BLE001 - Ray raises plain ones for handles of a Ray that has ended
            self._handles.pop(role, None)
            raise PeerGoneError(role) from None
        self._answers.add(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled() and not cancelling():
                raise PeerGoneError(role) from None
            raise
        except RayTaskError as failure:
            # The text is a traceback that can contain values; that of a ReleaseError has none.
            cause = failure.cause
            reason = str(cause) if isinstance(cause, ReleaseError) else type(cause).__name__
            raise PeerFailedError(f"{role}: {reason}") from None
        except RayError:
            # The process has died, or Ray itself.
            self._handles.pop(role, None)
            self._connections.pop(role, None)
            raise PeerGoneError(role) from None
        finally:
            self._answers.discard(answer)

    def kill(self, role: str, *, again: bool = False) -> None:
        """Kill a process; Ray restarts it only if ``again``. A process without a cached handle is not killed:
        it was never called, or a call has failed because it is dead."""
        connection, handle = self._connections.pop(role, None), self._handles.pop(role, None)
        if handle is not None:
            ray.kill(handle, no_restart=not again)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Stop using a Ray that ends: drop all handles and connections. Open calls, and all calls before
        ``reopen``, raise PeerGoneError.

        Ray ends a process whose client is used while it shuts down (in C++, without an exception). When this
        method returns, no call and no reference to an answer is left.
        """
        self._session += 1
        self._closed = True
        connections, connecting = tuple(self._connections.values()), tuple(self._connecting.values())
        for answer in self._answers:
            answer.cancel()
        self._handles.clear()
        self._connections.clear()
        self._finding.clear()
        for task in connecting:
            task.cancel()
        for connection in connections:
            if connection is not None:
                connection.close()
        while True:
            if not self._answers:
                return
            await asyncio.sleep(0)

    def reopen(self) -> None:
        """Use the Ray that was started after ``close``."""
        self._closed = False

    async def _connection(self, role: str) -> UnixConnection | None:
        """The connection to ``role``; concurrent callers share one attempt."""
        connecting = self._connecting.get(role)
        if connecting is None:
            connecting = self._connecting[role] = asyncio.create_task(self._connect(role))
            connecting.add_done_callback(partial(self._connected, role))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled() and not cancelling():
                raise PeerGoneError(role) from None
            raise

    async def _connect(self, role: str) -> UnixConnection | None:
        """The process returns its socket name when its role serves, so this call also starts the role."""
        session = self._session
        if self._closed:
            raise PeerGoneError(role)
        name = await self._remote(role, SOCKET_NAME, own_node())
        connection = await connect(role, name, partial(self._disconnected, role))
        if session != self._session:
            if connection is not None:
                connection.close()
            raise PeerGoneError(role)
        self._connections[role] = connection
        return connection

    def _connected(self, role: str, connecting: asyncio.Task[UnixConnection | None]) -> None:
        if self._connecting.get(role) is connecting:
            del self._connecting[role]
        if not connecting.cancelled():
            connecting.exception()  # retrieved: every caller may have been cancelled

    def _disconnected(self, role: str, connection: UnixConnection) -> None:
        if self._connections.get(role) is connection:
            del self._connections[role]

    async def _find(self, role: str) -> Any:
        """Look up the handle of a name. Ray's look-up blocks, so it runs in a thread; concurrent callers
        share one look-up."""
        session = self._session
        if self._closed:
            raise PeerGoneError(role)
        finding = self._finding.get(role)
        if finding is None:
            finding = self._finding[role] = asyncio.create_task(
                in_daemon_thread(_look_up, role, self._namespace)
            )
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
            finding.exception()  # retrieved: every caller may have been cancelled


def cancelling() -> bool:
    """Whether the current task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _look_up(role: str, namespace: str) -> Any:
    """The handle of a name. Raises ValueError when Ray does not know it, or has not been started."""
    if not ray.is_initialized():
        raise ValueError(role)
    return ray.get_actor(role, namespace)
