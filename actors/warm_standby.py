"""Roles of which two processes exist and one is active. The other has loaded its code and waits for the lock
of the active one (``actors.journal.leader_lock``), so that it takes over within half a second of its death.

An installation on one machine has one process of each such role. Two can be active at once for a second, when
one has lost its lock and does not know it yet; their roles must tolerate that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

import structlog

from actors.essential import start_essential
from actors.journal.leader_lock import LeaderLock
from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError, Peers
from actors.roles import Context, Role
from engine.limits import ACTIVE_CALL_SECONDS, LEADER_CHECK_SECONDS, LEADER_LEASE_SECONDS, READY_SECONDS

ACTIVE: Final = "active"
"""The call that asks a process whether it is active: ``YES`` or empty."""
YES: Final = b"1"
START_ATTEMPTS: Final = 5
START_PAUSE_SECONDS: Final = 0.1
"""The server may need a moment to see the end of the process before, whose calls this one gets."""
REFUSALS_MAX: Final = ceil(LEADER_LEASE_SECONDS / LEADER_CHECK_SECONDS)
"""Refusals of the lock in a row that an active process tolerates: its own former session, whose connection
was cut, can have the lock until the lease ends."""

_log = structlog.get_logger(__name__)


class NotActiveError(Exception):
    """The other process is active. Callers know this error by its name."""


class LostLockError(Exception):
    """The other process has the lock; ends this one, which then starts as the standby."""


class WarmStandby:
    """A ``Role`` around the one that ``build`` makes, which starts when this process becomes active."""

    def __init__(self, context: Context, key: int, build: Callable[[Context], Role]) -> None:
        """``key``: number of the role's lock in the database."""
        self._name = context.name
        self._role = build(context)
        self._lock = LeaderLock(context.settings.database_dsn, key)
        self._active = False
        self._working: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the role is active, or waits in the background for the lock."""
        for _ in range(START_ATTEMPTS):
            acquired = await self._lock.try_acquire()
            if acquired:
                await self._activate()
            if acquired is not False:
                break
            await asyncio.sleep(START_PAUSE_SECONDS)
        self._working = start_essential(self._work(), f"standby-{self._name}")

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == ACTIVE:
            return YES if self._active else b""
        if not self._active:
            raise NotActiveError
        return await self._role.call(method, payload)

    def figures(self) -> Figures:
        active: Figures = {"stanchion_role_active": float(self._active)}
        return active | (self._role.figures() if self._active else {})

    async def stop(self) -> None:
        working, self._working = self._working, None
        if working is not None:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        if self._active:
            await self._role.stop()
            self._active = False
        self._lock.close()

    async def _work(self) -> None:
        if not self._active:
            await self._lock.acquire()
            await self._activate()
        refusals = 0
        while refusals <= REFUSALS_MAX:
            await asyncio.sleep(LEADER_CHECK_SECONDS)
            refusals = refusals + 1 if await self._lock.try_acquire() is False else 0
        raise LostLockError

    async def _activate(self) -> None:
        await self._role.start()
        self._active = True
        _log.info("role_active", name=self._name)


class ActivePeer:
    """Calls the active one of the processes ``names``. The result of each question is kept until a call
    fails."""

    def __init__(self, peers: Peers, names: Sequence[str]) -> None:
        self._peers = peers
        self._names = names
        self._active: str | None = None

    async def call(self, method: str, payload: bytes) -> bytes:
        """Raises PeerGoneError when no process is active, or when the call has no answer: the process may
        have executed it. Raises PeerFailedError."""
        for _ in range(2):
            name = self._active = self._active or await self._find()
            try:
                async with asyncio.timeout(ACTIVE_CALL_SECONDS):
                    return await self._peers.call(name, method, payload)
            except (PeerGoneError, TimeoutError):
                self._active = None
                raise PeerGoneError(name) from None
            except PeerFailedError as failure:
                self._active = None
                if not str(failure).endswith(NotActiveError.__name__):
                    raise
        raise PeerGoneError(self._names[0])

    async def _find(self) -> str:
        """The active process. All are asked at once: one of them can be on a machine that does not answer."""
        asking = {asyncio.create_task(self._is_active(name)): name for name in self._names}
        try:
            for answer in asyncio.as_completed(asking, timeout=READY_SECONDS):
                if (name := await answer) is not None:
                    return name
        except TimeoutError:
            pass
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        raise PeerGoneError(self._names[0])

    async def _is_active(self, name: str) -> str | None:
        try:
            return name if await self._peers.call(name, ACTIVE, b"") == YES else None
        except PeerGoneError:
            return None
        except PeerFailedError:
            # A process of the release before does not know the question, and is the only one of its role.
            return name
