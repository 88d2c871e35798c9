"""One process that the supervisor keeps alive.

Ray restarts a process that has died. The supervisor detects a process that lives but does not work (stopped,
hanging, starved): it pings the process like a shard host (``liveness``) and kills it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Final

import structlog

from actors.cluster.liveness import ROLE_PROBES, Checks, Loss, ProbePolicy, wait_lost
from actors.cluster.nodes import placement_options
from actors.cluster.peers import COORDINATORS, RayPeers
from actors.cluster.process import RESTART_ALWAYS, launch
from actors.cluster.process_state import KernelState, kill_process
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import PlacedProcess, successor_number, successor_of
from actors.settings import Settings
from engine.limits import (
    ROLE_PATIENCE_DOUBLINGS_MAX,
    ROLE_PATIENCE_SECONDS,
    ROLE_START_SECONDS,
    ROLE_STOP_SECONDS,
)

RESTART_POLL_SECONDS: Final = 0.1
FAILED_PAUSE_SECONDS: Final = 1.0
"""Pause after a failed start of the role."""

_log = structlog.get_logger(__name__)


class SupervisedProcess:
    """Call ``launch``, then ``watch``. ``unwatch`` is safe to call twice. All processes of a set share
    ``checks``."""

    def __init__(
        self,
        placed: PlacedProcess,
        settings: Settings,
        peers: RayPeers,
        checks: Checks,
        probes: ProbePolicy = ROLE_PROBES,
    ) -> None:
        self.placed = placed
        self.name = placed.name
        """The name of the current process; a successor that started beside it has another one."""
        self.identity = ""
        """The identity (``process_state``) of the process that served last; empty where it cannot be seen."""
        self.serving = asyncio.Event()
        """Set while the process is known to serve."""
        self._probes = probes
        self._checks = checks
        self._silence_kills: list[float] = []
        """Times of recent kills for silence."""
        self._successors = 0
        self._replacing = False
        self._settings = settings
        self._peers = peers
        self._watcher: asyncio.Task[None] | None = None

    def launch(self) -> None:
        """Have Ray start the process, and restart it whenever it dies."""
        self._launch(self.name)

    def adopt(self, name: str) -> None:
        """Keep a process that an earlier supervisor launched, or its successor ``name``."""
        self.name = name
        self._successors = successor_number(name)

    async def wait_serving(self) -> None:
        """Wait until its role serves. Raises PeerGoneError, PeerFailedError, and TimeoutError after
        ``ROLE_START_SECONDS``."""
        async with asyncio.timeout(ROLE_START_SECONDS):
            self.identity = await self._peers.ping(self.name)
        self.serving.set()

    def watch(self, on_failure: Callable[[BaseException], None]) -> None:
        """Watch the process, and kill it when it is stopped or hangs. ``on_failure`` receives faults of the
        watch itself."""
        self._watcher = asyncio.create_task(self._watch())
        self._watcher.add_done_callback(
            lambda task: None if task.cancelled() else on_failure(task.exception() or RuntimeError())
        )

    def unwatch(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.cancel()

    def abandon(self) -> None:
        """Kill the process without a stop: its node has left the cluster."""
        self.unwatch()
        self._peers.kill(self.name)

    async def end(self) -> None:
        """Stop the role, then kill the process."""
        self.unwatch()
        await self._stop_role(self.name)
        self._peers.kill(self.name)

    async def replace(self) -> None:
        """Replace the process by a new one that runs the current code. Raises PeerGoneError, PeerFailedError
        and TimeoutError when the new process does not serve; a successor that was to start beside the old
        process is then killed.

        A singleton ends first, because others call it by name. Any other process serves until its successor
        does.
        """
        self._replacing = True
        try:
            await (self._restart() if self.placed.spec.singleton else self._replace_by_successor())
        finally:
            self._replacing = False

    async def _replace_by_successor(self) -> None:
        old, self._successors = self.name, self._successors + 1
        new = successor_of(self.placed.name, self._successors)
        self._launch(new)
        try:
            async with asyncio.timeout(ROLE_START_SECONDS):
                await self._peers.ping(new)
        except BaseException:
            # Also after a cancellation: the successor must not serve unwatched beside the old process.
            self._peers.kill(new)
            raise
        self.name = new
        await self._stop_role(old)
        self._peers.kill(old)

    async def _restart(self) -> None:
        before = await self._peers.ask(self.name, "ping")
        if self.name not in COORDINATORS:
            # Stopping the coordinator would end every host; a kill leaves them running.
            await self._stop_role(self.name)
        self._peers.kill(self.name, again=True)
        async with asyncio.timeout(ROLE_START_SECONDS):
            while True:
                if await self._has_restarted(before):
                    return
                await asyncio.sleep(RESTART_POLL_SECONDS)

    async def _has_restarted(self, before: int) -> bool:
        """Whether a process with another pid than ``before`` serves."""
        try:
            return bool(await self._peers.ask(self.name, "ping") != before)
        except PeerGoneError:
            return False

    async def _stop_role(self, name: str) -> None:
        with suppress(PeerGoneError, PeerFailedError, TimeoutError):
            async with asyncio.timeout(ROLE_STOP_SECONDS):
                await self._peers.ask(name, "stop")

    def _launch(self, name: str) -> None:
        options = placement_options(self.placed.node, pinned=self.placed.pinned)
        spec = self.placed.spec
        launch(spec.factory, self._settings, name, options, restarts=RESTART_ALWAYS, niceness=spec.niceness)

    async def _watch(self) -> None:
        """Ray restarts a dead process; the first ping then starts its role."""
        while True:
            name = self.name
            await self._wait_started()
            with closing(KernelState(self.identity)) as state:
                lost = await wait_lost(
                    partial(self._peers.ping, name),
                    partial(self._peers.death, name),
                    state.is_halted,
                    self._probes.with_doubled_silence(self._recent_silence_kills()),
                    self._checks,
                )
            self.serving.clear()
            if self._replacing or name != self.name:
                continue
            _log.warning("process_lost", name=name, reason=lost)
            if lost != "ended":
                self._kill_lost(lost)

    async def _wait_started(self) -> None:
        """Wait until the process serves, over any number of restarts."""
        reported = ""
        while True:
            try:
                await self.wait_serving()
            except PeerGoneError:
                await asyncio.sleep(RESTART_POLL_SECONDS)
            except PeerFailedError as failure:
                if str(failure) != reported:
                    reported = str(failure)
                    _log.warning("process_cannot_start", name=self.name, reason=reported)
                await asyncio.sleep(FAILED_PAUSE_SECONDS)
            except TimeoutError:
                if not self._replacing:
                    _log.warning("process_does_not_start", name=self.name)
                    self._kill_through_ray()
            else:
                return

    def _kill_lost(self, lost: Loss) -> None:
        """Kill a process that does not answer. On this machine by SIGKILL, because Ray asks it to end first
        and waits five seconds; Ray notices the death at once and restarts the process."""
        if lost == "silent":
            self._silence_kills.append(time.monotonic())
        if not kill_process(self.identity):
            self._kill_through_ray()

    def _kill_through_ray(self) -> None:
        self._peers.kill(self.name, again=True)

    def _recent_silence_kills(self) -> int:
        since = time.monotonic() - ROLE_PATIENCE_SECONDS
        self._silence_kills = [when for when in self._silence_kills if when > since]
        return min(len(self._silence_kills), ROLE_PATIENCE_DOUBLINGS_MAX)
