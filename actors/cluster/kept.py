"""One process that the supervisor keeps alive.

Ray starts a process again when it has died. A process that lives and does nothing (stopped, hanging, starved)
is the supervisor's to find: it is pinged like a shard host (``liveness``) and killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from actors.cluster.liveness import ROLE_PULSE, Loss, Pulse, loss
from actors.cluster.nodes import on
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.process import FOREVER, launch
from actors.cluster.standstill import end, stands_still
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import Placed
from actors.settings import Settings
from engine.limits import (
    ROLE_PATIENCE_DOUBLINGS_MAX,
    ROLE_PATIENCE_SECONDS,
    ROLE_START_SECONDS,
    ROLE_STOP_SECONDS,
)

AGAIN_POLL_SECONDS: Final = 0.1
FAILED_PAUSE_SECONDS: Final = 1.0
"""Pause after a role that could not start."""

_log = structlog.get_logger(__name__)


class Kept:
    """``launch`` it, then ``watch`` it. ``unwatch`` twice is harmless."""

    def __init__(
        self, placed: Placed, settings: Settings, peers: RayPeers, pulse: Pulse = ROLE_PULSE
    ) -> None:
        self.placed = placed
        self.name = placed.name
        """Of the process of now: a successor that began beside it has another one."""
        self.where = ""
        """The whereabouts of the process, once it has served; empty where they cannot be seen."""
        self.served = asyncio.Event()
        """Set while it serves, as far as is known."""
        self._pulse = pulse
        self._impatience: list[float] = []
        """When it was killed for silence lately."""
        self._successors = 0
        self._renewing = False
        self._settings = settings
        self._peers = peers
        self._watcher: asyncio.Task[None] | None = None

    def launch(self) -> None:
        """Have Ray start the process, and start it again whenever it dies."""
        self._launch(self.name)

    async def serves(self) -> None:
        """Return once its role serves. Raises PeerGoneError, PeerFailedError, and TimeoutError when that
        takes longer than a start may."""
        async with asyncio.timeout(ROLE_START_SECONDS):
            self.where = await self._peers.ping(self.name)
        self.served.set()

    def watch(self, on_failure: Callable[[BaseException], None]) -> None:
        """Keep watch over it, and kill it when it is stopped or hangs. ``on_failure`` is called with faults
        of the watch itself."""
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
            async with asyncio.timeout(ROLE_START_SECONDS):
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
        async with asyncio.timeout(ROLE_START_SECONDS):
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
            async with asyncio.timeout(ROLE_STOP_SECONDS):
                await self._peers.ask(name, "stop")

    def _launch(self, name: str) -> None:
        where = on(self.placed.node, pinned=self.placed.pinned)
        spec = self.placed.spec
        launch(spec.factory, self._settings, name, where, restarts=FOREVER, niceness=spec.niceness)

    async def _watch(self) -> None:
        """Ray starts a dead process again; the first ping then starts its role."""
        while True:
            name = self.name
            await self._begun()
            lost = await loss(
                partial(self._peers.ping, name),
                partial(self._peers.death, name),
                lambda: stands_still(self.where),
                self._pulse.patient(self._killed_lately()),
            )
            self.served.clear()
            if self._renewing or name != self.name:
                continue
            _log.warning("process_lost", name=name, reason=lost)
            if lost != "ended":
                self._put_down(lost)

    async def _begun(self) -> None:
        """Return when the process serves, however often it has to be started for that."""
        while True:
            try:
                await self.serves()
            except PeerGoneError:
                await asyncio.sleep(AGAIN_POLL_SECONDS)
            except PeerFailedError:
                await asyncio.sleep(FAILED_PAUSE_SECONDS)
            except TimeoutError:
                if not self._renewing:
                    _log.warning("process_does_not_start", name=self.name)
                    self._kill()
            else:
                return

    def _put_down(self, lost: Loss) -> None:
        """Kill a process that does not answer. On this machine by a signal, because Ray asks it to end first
        and waits for five seconds; Ray sees its death at once and starts a new one."""
        if lost == "silent":
            self._impatience.append(time.monotonic())
        if not end(self.where):
            self._kill()

    def _kill(self) -> None:
        self._peers.kill(self.name, again=True)

    def _killed_lately(self) -> int:
        since = time.monotonic() - ROLE_PATIENCE_SECONDS
        self._impatience = [when for when in self._impatience if when > since]
        return min(len(self._impatience), ROLE_PATIENCE_DOUBLINGS_MAX)
