"""The coordinator: keeps every shard with a living host, and everyone informed of which.

A host that dies, or does not answer pings, loses its shards to the survivors at once; a fresh host is then
created and gets its share. The truth about ownership is in the journal (epochs): if the coordinator is
wrong, or there were two, commits fail and money is safe.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
import structlog

from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.placement import Move, adopt_orphans, even_out
from engine.limits import SHARD_COUNT

PING_SECONDS: Final = 0.25
SILENCE_SECONDS: Final = 1.0
"""A host that has not answered a ping for so long is taken for dead. Wrong guesses cost a takeover, never
money."""
LOOK_SECONDS: Final = 0.05
STILL_LOOKS: Final = 2
"""A host on this machine that is seen to be stopped or gone so many times in a row is taken for dead, without
waiting for a silence or for Ray."""
TABLE_WAIT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.encode
_decode_int = msgspec.msgpack.Decoder(int).decode


class Hosts(Protocol):
    """Shard hosts as the coordinator needs them; every call but ``end`` raises PeerGoneError for a dead
    one."""

    async def create(self) -> str: ...
    async def living(self) -> set[str]: ...
    async def ping(self, incarnation: str) -> None: ...
    def stands_still(self, incarnation: str) -> bool: ...
    async def death(self, incarnation: str) -> None: ...
    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes: ...
    async def stop(self, incarnation: str) -> None: ...
    def end(self, incarnation: str) -> None: ...


ReadOwners = Callable[[], Awaitable[dict[int, str | None]]]


class Coordinator:
    """See the module; a ``Role``."""

    def __init__(self, hosts: Hosts, read_owners: ReadOwners, wanted: int) -> None:
        self._hosts = hosts
        self._read_owners = read_owners
        self._wanted = wanted
        self._watched: set[str] = set()
        self._owners: dict[int, str | None] = dict.fromkeys(range(SHARD_COUNT))
        # Greater than that of any earlier coordinator, so that routers adopt its tables.
        self._version = time.time_ns() // 1_000_000
        self._changed = asyncio.Condition()
        self._moving = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.takeovers = 0

    # --- role ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the hosts that live, create those that are missing, and give every shard an owner."""
        self._owners |= await self._read_owners()
        owners = {host for host in self._owners.values() if host is not None}
        for incarnation in await self._hosts.living():
            if incarnation in owners and await self._answers(incarnation):
                self._watch(incarnation)
            else:
                self._hosts.end(incarnation)
        missing = self._wanted - len(self._watched)
        for incarnation in await asyncio.gather(*(self._hosts.create() for _ in range(missing))):
            self._watch(incarnation)
        async with self._moving:
            await self._adopt_orphans()
            await self._even_out()

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == "table":
            return await self._table_after(_decode_int(payload))
        if method == "publish_programme":
            await self._publish_programme(payload)
            return b""
        raise ValueError(method)

    def figures(self) -> Figures:
        return {
            "stanchion_takeovers": self.takeovers,
            "stanchion_shards_unowned": sum(owner is None for owner in self._owners.values()),
        }

    async def stop(self) -> None:
        """Let every host finish what it has decided, and end it; nothing is taken over any more."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        hosts = tuple(self._watched)
        self._watched.clear()
        await asyncio.gather(*(self._hosts.stop(host) for host in hosts), return_exceptions=True)
        # A cluster that is not ours would keep them.
        for host in hosts:
            self._hosts.end(host)

    # --- routing table ------------------------------------------------------------------------------------

    async def _table_after(self, version: int) -> bytes:
        with suppress(TimeoutError):
            async with asyncio.timeout(TABLE_WAIT_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._version > version)
        return _encode(
            RoutingTable(self._version, tuple(self._owners[shard] for shard in range(SHARD_COUNT)))
        )

    async def _publish(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    async def _publish_programme(self, config: bytes) -> None:
        """All living hosts learn it; one that dies meanwhile has no cards to decide on."""
        calls = (self._hosts.call(host, "programme_changed", config) for host in tuple(self._watched))
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, PeerGoneError):
                raise result

    # --- watching -----------------------------------------------------------------------------------------

    async def _answers(self, incarnation: str) -> bool:
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._hosts.ping(incarnation)
        except (PeerGoneError, PeerFailedError, TimeoutError):
            return False
        return True

    def _watch(self, incarnation: str) -> None:
        self._watched.add(incarnation)
        self._spawn(self._guard(incarnation))

    async def _guard(self, incarnation: str) -> None:
        """Returns after the host has been replaced as owner: a death is heard at once, a freeze is seen soon
        on this machine, and noticed after a silence everywhere."""
        signs = [
            asyncio.ensure_future(self._hosts.death(incarnation)),
            asyncio.create_task(self._silence(incarnation)),
            asyncio.create_task(self._standstill(incarnation)),
        ]
        try:
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for sign in signs:
                sign.cancel()
            await asyncio.gather(*signs, return_exceptions=True)
        await self._lost(incarnation)

    async def _silence(self, incarnation: str) -> None:
        while True:
            if not await self._answers(incarnation):
                return
            await asyncio.sleep(PING_SECONDS)

    async def _standstill(self, incarnation: str) -> None:
        looks = 0
        while looks < STILL_LOOKS:
            await asyncio.sleep(LOOK_SECONDS)
            looks = looks + 1 if self._hosts.stands_still(incarnation) else 0

    async def _lost(self, incarnation: str) -> None:
        _log.warning("host_lost", incarnation=incarnation)
        self._watched.discard(incarnation)
        self._hosts.end(incarnation)
        self.takeovers += 1
        async with self._moving:
            if self._watched:
                await self._adopt_orphans()
        self._spawn(self._refill())

    async def _refill(self) -> None:
        """Create a successor and give it its share."""
        try:
            incarnation = await self._hosts.create()
        except (PeerGoneError, PeerFailedError):
            await asyncio.sleep(RETRY_SECONDS)
            self._spawn(self._refill())
            return
        self._watch(incarnation)
        async with self._moving:
            await self._adopt_orphans()
            await self._even_out()

    # --- moving shards ------------------------------------------------------------------------------------

    async def _adopt_orphans(self) -> None:
        """Repeats until every shard is with a living host: takers can die, and the journal can be away."""
        while self._watched and (moves := adopt_orphans(self._owners, self._watched)):
            if not all(await asyncio.gather(*(self._take(move) for move in moves))):
                await asyncio.sleep(RETRY_SECONDS)
            await self._publish()

    async def _even_out(self) -> None:
        for move in even_out(self._owners, self._watched) if self._watched else ():
            await self._hand_over(move)
        await self._adopt_orphans()

    async def _hand_over(self, move: Move) -> None:
        """The giver finishes what it has decided before the taker reads; meanwhile routers hold the
        commands back."""
        try:
            await self._hosts.call(move.giver or "", "release", _encode(move.shards))
        except (PeerGoneError, PeerFailedError):
            return
        await self._take(move)
        await self._publish()

    async def _take(self, move: Move) -> bool:
        """Whether the taker owns the shards now; a failure leaves them unowned, to be tried again."""
        taken = False
        try:
            taken = await self._hosts.call(move.taker, "take", _encode(move.shards)) == b"taken"
        except (PeerGoneError, PeerFailedError):
            _log.warning("taker_lost", incarnation=move.taker)
        for shard in move.shards:
            self._owners[shard] = move.taker if taken else None
        return taken

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
