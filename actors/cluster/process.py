"""One Ray actor class for every role: a process that builds its role by name and passes calls on.

Calls are never retried by Ray (``max_task_retries=0``): only our own code repeats them, and only by command
key.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

import ray
import structlog

from actors.cluster.exhaustion import Exhaustion
from actors.cluster.lines import Door
from actors.cluster.loop_lag import LoopLag
from actors.cluster.nodes import Options, here
from actors.cluster.peers import PARK, PING, RayPeers
from actors.cluster.precedence import give_way
from actors.cluster.standstill import whereabouts
from actors.cluster.title import entitle, title_of
from actors.log import configure
from actors.metrics import Figures, process_figures
from actors.roles import Context, Role
from actors.settings import Settings
from actors.vault import Vault, VaultError

CALLS_AT_ONCE: Final = 10_000
"""Calls under way in one process; our own limits refuse long before."""
FOREVER: Final = -1
COLLECT_AFTER_OBJECTS: Final = 20_000
"""So many more containers made than freed let the garbage collector look for cycles (Python's own: 700)."""

_log = structlog.get_logger(__name__)


class Process:
    """A role in a process. It starts with the first call, so a process that Ray has restarted comes back by
    being asked anything."""

    def __init__(self, factory: str, settings: bytes, name: str, proof: bytes, niceness: int = 0) -> None:
        entitle(title_of(name))
        self._niceness = niceness
        self._settings = Settings.from_json(settings)
        self._proof = proof
        configure(self._settings.var_dir, self._settings.log_level, name)
        self._factory = factory
        self._name = name
        self._role: Role | None = None
        self._starting = asyncio.Lock()
        self._lag = LoopLag()
        self._exhaustion = Exhaustion()
        self._door = Door(self.call)
        self._whereabouts = whereabouts().encode()
        # Loaded before anybody asks, while other processes begin; what fails here fails again, and is told,
        # when somebody does.
        with suppress(Exception):
            _named(factory)

    async def ping(self) -> int:
        """The process id, once the role serves."""
        await self._started()
        return os.getpid()

    async def door(self, node: str) -> str:
        """Where processes of the same node call this one, once the role serves; empty for those of other
        nodes, and for all where there are no doors."""
        await self._started()
        return self._door.name if node == here() else ""

    async def whereabouts(self) -> str:
        """What its own machine finds the process by."""
        return whereabouts()

    async def call(self, method: str, payload: bytes) -> bytes:
        """Have the role answer."""
        role = self._role or await self._started()
        if method == PING:
            return self._whereabouts
        if method == PARK:
            await asyncio.Event().wait()
        return await role.call(method, payload)

    async def figures(self) -> Figures:
        """What the process and its role count."""
        serving: Figures = {"stanchion_process_serving": float(self._role is not None)}
        lag: Figures = {"stanchion_loop_lag_seconds": self._lag.figure()}
        return process_figures() | serving | lag | (self._role.figures() if self._role else {})

    async def stop(self) -> None:
        """Let the role finish."""
        if self._role is not None:
            await self._role.stop()
            _log.info("stopped")
        await self._door.close()

    async def _started(self) -> Role:
        async with self._starting:
            if self._role is None:
                try:
                    role = self._build()
                    await role.start()
                except Exception:
                    # Whoever asked gets one line; here is the only place that still has the traceback.
                    _log.exception("role_cannot_start", name=self._name)
                    raise
                self._role = role
                # From now on: a process that could not load while others are busy would be away too long.
                give_way(self._niceness)
                _log.info("started", pid=os.getpid())
                self._lag.start()
                self._exhaustion.start()
                await self._door.open()
                # What has been loaded by now stays for good: the collector need not look at it again. Nearly
                # all that comes is freed without it.
                gc.freeze()
                gc.set_threshold(COLLECT_AFTER_OBJECTS)
            return self._role

    def _build(self) -> Role:
        """The role. On a node with other keys it would write what nobody else can read: VaultError."""
        if not Vault.from_settings(self._settings, make=False).agrees(self._proof):
            raise VaultError("this node has other master keys: all of them take STANCHION_MASTER_KEY")
        return _named(self._factory)(Context(self._settings, self._name, RayPeers(self._settings)))


def _named(factory: str) -> Callable[[Context], Role]:
    """What ``module:function`` names."""
    module, _, attribute = factory.partition(":")
    build: Callable[[Context], Role] = getattr(import_module(module), attribute)
    return build


@cache
def _remote_class() -> Any:
    """Made once: Ray takes each new one apart, which costs as much as starting a process."""
    return ray.remote(Process)


def launch(
    factory: str,
    settings: Settings,
    name: str,
    where: Options,
    *,
    restarts: int = 0,
    niceness: int = 0,
) -> Any:
    """Create the process ``name``; it outlives its creator. ``restarts``: how often Ray starts it again, or
    ``FOREVER``. ``niceness``: as of nice(1)."""
    remote = _remote_class().options(
        name=name,
        lifetime="detached",
        num_cpus=0,
        max_restarts=restarts,
        max_task_retries=0,
        max_concurrency=CALLS_AT_ONCE,
        **where,
    )
    proof = Vault.from_settings(settings).proof()
    return remote.remote(factory, settings.to_json(), name, proof, niceness)
