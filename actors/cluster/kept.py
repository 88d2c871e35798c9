"""One process that the supervisor keeps alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from actors.cluster.nodes import on
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.process import FOREVER, launch
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import Placed
from actors.settings import Settings

PING_SECONDS: Final = 1.0
STOP_SECONDS: Final = 15.0
"""What a process gets to finish before it is killed."""
AGAIN_SECONDS: Final = 60.0
"""What a process that is started again gets to serve."""
AGAIN_POLL_SECONDS: Final = 0.1

_log = structlog.get_logger(__name__)


class Kept:
    """``launch`` it, then ``watch`` it. ``unwatch`` twice is harmless."""

    def __init__(self, placed: Placed, settings: Settings, peers: RayPeers) -> None:
        self.placed = placed
        self.name = placed.name
        """Of the process of now: a successor that began beside it has another one."""
        self._successors = 0
        self._renewing = False
        self._settings = settings
        self._peers = peers
        self._watcher: asyncio.Task[None] | None = None

    def launch(self) -> None:
        """Have Ray start the process, and start it again whenever it dies."""
        self._launch(self.name)

    async def serves(self) -> None:
        """Return once its role serves. Raises PeerGoneError and PeerFailedError."""
        await self._peers.ping(self.name)

    def watch(self, on_failure: Callable[[BaseException], None]) -> None:
        """Ask it now and then. ``on_failure`` hears what cannot be waited out."""
        self._watcher = asyncio.create_task(self._watch())
        self._watcher.add_done_callback(
            lambda task: None if task.cancelled() else on_failure(task.exception() or RuntimeError())
        )

    def unwatch(self) -> None:
        """Ask no more."""
        if self._watcher is not None:
            self._watcher.cancel()

    def abandon(self) -> None:
        """Its node has left, and it with the node."""
        self.unwatch()
        self._peers.kill(self.name)

    async def end(self) -> None:
        """Let it finish what it has under way, then kill it."""
        self.unwatch()
        await self._stop(self.name)
        self._peers.kill(self.name)

    async def renew(self) -> None:
        """Put a new process in its place, of the code of now. Raises PeerGoneError, PeerFailedError and
        TimeoutError when that does not serve; a successor that was to begin beside it is then no more.

        Where others call it by name, it ends first; anything else has its successor beside it first, so that
        somebody serves all the time.
        """
        self._renewing = True
        try:
            await (self._begin_again() if self.placed.spec.called_by_name else self._succeed())
        finally:
            self._renewing = False

    async def _succeed(self) -> None:
        old, self._successors = self.name, self._successors + 1
        new = f"{self.placed.name}.{self._successors}"
        self._launch(new)
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                await self._peers.ping(new)
        except BaseException:
            # Given up for whatever reason, it must not serve beside the old one unwatched.
            self._peers.kill(new)
            raise
        self.name = new
        await self._stop(old)
        self._peers.kill(old)

    async def _begin_again(self) -> None:
        before = await self._peers.ask(self.name, "ping")
        if self.name != COORDINATOR:
            # The coordinator would end every host; those go on without it.
            await self._stop(self.name)
        self._peers.kill(self.name, again=True)
        async with asyncio.timeout(AGAIN_SECONDS):
            while True:
                if await self._is_another(before):
                    return
                await asyncio.sleep(AGAIN_POLL_SECONDS)

    async def _is_another(self, before: int) -> bool:
        """Whether a process other than that of the id ``before`` serves."""
        try:
            return bool(await self._peers.ask(self.name, "ping") != before)
        except PeerGoneError:
            return False

    async def _stop(self, name: str) -> None:
        with suppress(PeerGoneError, PeerFailedError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._peers.ask(name, "stop")

    def _launch(self, name: str) -> None:
        where = on(self.placed.node, pinned=self.placed.pinned)
        spec = self.placed.spec
        launch(spec.factory, self._settings, name, where, restarts=FOREVER, niceness=spec.niceness)

    async def _watch(self) -> None:
        """Ray starts a dead process again; being asked, it starts its role again."""
        while True:
            try:
                await self.serves()
            except (PeerGoneError, PeerFailedError):
                if not self._renewing:
                    _log.warning("process_lost", name=self.name)
            await asyncio.sleep(PING_SECONDS)
