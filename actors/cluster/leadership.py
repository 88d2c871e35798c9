"""Two coordinators, of which one leads. The other waits for the leader's lock, observes the hosts, and leads
as soon as the leader has died.

Two leaders at once cannot harm money, because epochs make wrong commits fail; but they would take shards from
each other. A leader that has lost its lock to the other coordinator therefore ends its process.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
import structlog

from actors.cluster.coordinator import Coordinator
from actors.cluster.peers import COORDINATOR, COORDINATORS
from actors.database import DatabaseUnavailableError
from actors.essential import start_essential
from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import LEADER_CHECK_SECONDS, TABLE_WAIT_SECONDS

STANDBY_DELAY_SECONDS: Final = 5.0
"""Time that the first coordinator has to start before the standby asks for the lock."""
RETIRE: Final = "retire"
"""The call by which a leader that is stopped keeps the other coordinator from leading."""
RETIRE_SECONDS: Final = 1.0

HOSTS_TURNS: Final = 8
"""The standby asks the leader for its hosts at every eighth of its checks."""

_log = structlog.get_logger(__name__)
_decode_names = msgspec.msgpack.Decoder(list[str]).decode


class NotLeadingError(Exception):
    """The other coordinator leads. Callers know this error by its name (``peers.NOT_LEADING``)."""


class LostLeadershipError(Exception):
    """The other coordinator has the lock; ends the process."""


class Lock(Protocol):
    """See ``actors.journal.leader_lock.LeaderLock``."""

    async def try_acquire(self) -> bool | None: ...
    async def acquire(self) -> None: ...
    def close(self) -> None: ...


class Caller(Protocol):
    """The part of ``actors.peers.Peers`` that is used here."""

    async def call(self, role: str, method: str, payload: bytes) -> bytes: ...


class Leadership:
    """A ``Role``: the coordinator of the process ``name``."""

    def __init__(self, coordinator: Coordinator, lock: Lock, peers: Caller, name: str) -> None:
        self._coordinator = coordinator
        self._lock = lock
        self._peers = peers
        self._name = name
        self._leads = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Lead at once if no other coordinator does, otherwise wait in the background."""
        if self._name == COORDINATOR and await self._lock.try_acquire():
            await self._lead()
        else:
            self._spawn(self._wait_to_lead())

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == RETIRE:
            await self._end_tasks()
            return b""
        if method == "table":
            # Held back: the caller gets the first table of a new leader without asking again.
            with suppress(TimeoutError):
                async with asyncio.timeout(TABLE_WAIT_SECONDS):
                    await self._leads.wait()
        if not self._leads.is_set():
            raise NotLeadingError
        return await self._coordinator.call(method, payload)

    def figures(self) -> Figures:
        leads: Figures = {"stanchion_coordinator_leads": float(self._leads.is_set())}
        return leads | self._coordinator.figures()

    async def stop(self) -> None:
        """Stop the hosts if this coordinator leads. The other one does not lead afterwards."""
        if self._leads.is_set():
            for other in set(COORDINATORS) - {self._name}:
                with suppress(PeerGoneError, PeerFailedError, TimeoutError):
                    async with asyncio.timeout(RETIRE_SECONDS):
                        await self._peers.call(other, RETIRE, b"")
        await self._end_tasks()
        await self._coordinator.stop()
        self._lock.close()

    async def _lead(self) -> None:
        await self._coordinator.start()
        self._leads.set()
        _log.info("coordinator_leads", name=self._name)
        self._spawn(self._keep_lock())

    async def _wait_to_lead(self) -> None:
        if self._name != COORDINATOR:
            await asyncio.sleep(STANDBY_DELAY_SECONDS)
        observing = start_essential(self._observe(), "coordinator-observing")
        try:
            await self._lock.acquire()
        finally:
            observing.cancel()
            await asyncio.gather(observing, return_exceptions=True)
        await self._lead()

    async def _observe(self) -> None:
        """Learn the hosts. The journal names those that own shards; reserves are known to the leader only."""
        known: list[str] = []
        for turn in itertools.count():
            if turn % HOSTS_TURNS == 0:
                known = await self._hosts_of_leader() or known
            with suppress(DatabaseUnavailableError):
                await self._coordinator.observe(known)
            await asyncio.sleep(LEADER_CHECK_SECONDS)

    async def _hosts_of_leader(self) -> list[str]:
        """The hosts that the other coordinator watches; empty if it does not lead or does not answer."""
        for other in set(COORDINATORS) - {self._name}:
            with suppress(PeerGoneError, PeerFailedError, TimeoutError):
                async with asyncio.timeout(LEADER_CHECK_SECONDS):
                    return _decode_names(await self._peers.call(other, "hosts", b""))
        return []

    async def _keep_lock(self) -> None:
        """Renew the lock, and ask for it again when the server has forgotten it. Ends the process when the
        other coordinator has it."""
        while True:
            if await self._lock.try_acquire() is False:
                raise LostLeadershipError
            await asyncio.sleep(LEADER_CHECK_SECONDS)

    async def _end_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_essential(work, "coordinator-leadership")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
