"""``actors.peers.Peers`` over Ray: handles are looked up once and kept, errors of Ray become
``PeerGoneError``."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.cluster.session import namespace
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.settings import Settings

COORDINATOR: Final = "coordinator"

_decode_table = msgspec.msgpack.Decoder(RoutingTable).decode
_encode = msgspec.msgpack.encode


class RayPeers:
    """The other processes of this installation."""

    def __init__(self, settings: Settings) -> None:
        self._namespace = namespace(settings)
        self._handles: dict[str, Any] = {}

    async def execute(self, incarnation: str, parcel: bytes) -> bytes:
        return await self.call(incarnation, "execute", parcel)

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        return await self.call(incarnation, "collect", caller)

    async def table(self, after: int) -> RoutingTable:
        return _decode_table(await self.call(COORDINATOR, "table", _encode(after)))

    async def publish_programme(self, programme: bytes) -> None:
        await self.call(COORDINATOR, "publish_programme", programme)

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        answer: bytes = await self._remote(role, "call", method, payload)
        return answer

    async def ask(self, role: str, method: str) -> Any:
        """Call a method of the process itself (``ping``, ``park``, ``stop``) instead of its role."""
        return await self._remote(role, method)

    async def _remote(self, role: str, method: str, *arguments: Any) -> Any:
        handle = self._handles.get(role) or await self._find(role)
        try:
            return await getattr(handle, method).remote(*arguments)
        except RayActorError:
            self._handles.pop(role, None)
            raise PeerGoneError(role) from None
        except RayTaskError as failure:
            # Its text is a traceback with whatever values stood in it.
            raise PeerFailedError(f"{role}: {type(failure.cause).__name__}") from None

    def kill(self, role: str) -> None:
        """End a process at once; it is not restarted. Unknown ones are dead already."""
        handle = self._handles.pop(role, None)
        if handle is not None:
            ray.kill(handle, no_restart=True)

    async def _find(self, role: str) -> Any:
        """Looking a name up blocks, so it happens beside the loop."""
        try:
            handle = await asyncio.to_thread(ray.get_actor, role, self._namespace)
        except ValueError:
            raise PeerGoneError(role) from None
        self._handles[role] = handle
        return handle
