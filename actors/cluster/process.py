"""The Ray actor class of every role: a process that builds its role by name and forwards calls to it.

The first call starts the role. A process that Ray has restarted starts it at once: the supervisor's next call
can be seconds away on a busy machine.

Ray never retries calls (``max_task_retries=0``). Only our own code repeats them, and only by command key.

Module, class, constructor arguments and method names are a protocol between releases: the supervisor of the
release before creates and calls processes of this one during ``stanchion restart``, and the coordinator of
this release creates hosts of the one before during a rollback. Ray looks up every method of the creator's
class, private ones included, in the code of the new process. ``Process`` therefore never gets a method of
another name, and the name of a method that is gone stays (``GoneMethod``).
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import inspect
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

import ray
import structlog

from actors.cluster.garbage_collection import spare_loaded_objects
from actors.cluster.loop_lag import LoopLag
from actors.cluster.nodes import Options, own_node
from actors.cluster.oom_watchdog import OomWatchdog
from actors.cluster.peers import ORIGIN, PARK, PING, RayPeers
from actors.cluster.process_state import own_identity
from actors.cluster.serialization import leave_addons_out
from actors.cluster.signal_checks import stop_signal_checks
from actors.cluster.tasks import RayTasks
from actors.cluster.title import set_title, title_of
from actors.cluster.unix_rpc import UnixServer
from actors.log import configure
from actors.metrics import Figures, process_figures
from actors.niceness import apply_niceness, take_own_share
from actors.primary import PrimaryWatch
from actors.release import check_release
from actors.roles import Context, Role
from actors.settings import Settings
from actors.vault import Vault, VaultError

CALLS_AT_ONCE: Final = 10_000
"""Concurrent calls of one process; our own limits refuse long before."""
RESTART_ALWAYS: Final = -1

_log = structlog.get_logger(__name__)

# At the import: Ray reads the arguments of the constructor before it calls it.
leave_addons_out()


class GoneMethod:
    """Takes the place of a method of an earlier release: Ray finds the name, and nothing calls it. Not a
    function, so that Ray does not look it up in releases that never had it."""

    async def __call__(self, *_arguments: object) -> None:
        """Ray reads the signature."""


class Process:
    """A role in a process."""

    _start_again: Final = GoneMethod()

    def __init__(self, factory: str, settings: bytes, name: str, proof: bytes, niceness: int = 0) -> None:
        # Loading makes many objects that stay; searching them for garbage costs half as much as loading them.
        gc.disable()
        take_own_share()
        set_title(title_of(name))
        self._niceness = niceness
        self._settings = Settings.from_json(settings)
        self._origin = _digest(factory, settings, niceness)
        self._proof = proof
        configure(self._settings.var_dir, self._settings.log_level, name)
        self._factory = factory
        self._name = name
        self._role: Role | None = None
        self._quieting: asyncio.Task[bool] | None = None
        self._starting = asyncio.Lock()
        self._lag = LoopLag()
        self._watchdog = OomWatchdog()
        self._primary_watch: PrimaryWatch | None = None
        # Ray wraps each method of this class with a coroutine for its tracing; local calls do without.
        self._server = UnixServer(partial(inspect.unwrap(type(self).call), self))
        self._identity = own_identity().encode()
        # Import the role's code now, while other processes start. An import that fails here fails again at
        # the first call, which reports it.
        with suppress(Exception):
            _import(factory)
        self._restarted = asyncio.create_task(_start_again(self)) if _is_restarted() else None

    async def ping(self) -> int:
        """Start the role if necessary; returns the process id."""
        await self._started()
        return os.getpid()

    async def door(self, node: str) -> str:
        """Start the role if necessary; returns the name of the Unix socket for calls. Empty for callers on
        another ``node``, and where Unix sockets are not available. Other releases call this method by its
        name."""
        await self._started()
        return self._server.name if node == own_node() else ""

    async def whereabouts(self) -> str:
        """The identity of this process on its machine (``process_state``). Does not start the role.

        Other releases call this method by its name.
        """
        return own_identity()

    async def call(self, method: str, payload: bytes) -> bytes:
        """Call the role, or answer PING, PARK and ORIGIN."""
        if method == ORIGIN:
            return f"{self._origin}@{own_node()}".encode()
        role = self._role or await self._started()
        if method == PING:
            return self._identity
        if method == PARK:
            await asyncio.Event().wait()
        return await role.call(method, payload)

    async def figures(self) -> Figures:
        """The figures of the process and its role."""
        serving: Figures = {"stanchion_process_serving": float(self._role is not None)}
        lag: Figures = {"stanchion_loop_lag_seconds": self._lag.figure()}
        return process_figures() | serving | lag | (self._role.figures() if self._role else {})

    async def stop(self) -> None:
        """Stop the role."""
        if self._primary_watch is not None:
            await self._primary_watch.stop()
        if self._role is not None:
            await self._role.stop()
            _log.info("stopped")
        await self._server.close()

    async def _started(self) -> Role:
        async with self._starting:
            if self._role is None:
                try:
                    if self._settings.database_url is not None:
                        await check_release(self._settings.database_dsn)
                    role = self._build()
                    await role.start()
                except Exception:
                    # The caller gets one line; only this log entry has the traceback.
                    _log.exception("role_cannot_start", name=self._name)
                    raise
                self._role = role
                # Not earlier: with a lower priority, loading could take too long on a busy machine.
                apply_niceness(self._niceness)
                _log.info("started", pid=os.getpid())
                self._lag.start()
                self._watchdog.start()
                if self._settings.database_url is not None:
                    self._primary_watch = PrimaryWatch(self._settings.database_dsn)
                    self._primary_watch.start()
                await self._server.open()
                spare_loaded_objects()
                self._quieting = asyncio.create_task(stop_signal_checks())
            return self._role

    def _build(self) -> Role:
        """Build the role. Raises VaultError on a node with other master keys: other nodes could not read what
        it writes."""
        if not Vault.from_settings(self._settings, make=False).agrees(self._proof):
            raise VaultError("this node has other master keys: set STANCHION_MASTER_KEY on all nodes")
        settings = self._settings
        return _import(self._factory)(Context(settings, self._name, RayPeers(settings), RayTasks(settings)))


async def _start_again(process: Process) -> None:
    # The failure is in the log, and the supervisor's call starts the role again.
    with suppress(Exception):
        await process.ping()


def _is_restarted() -> bool:
    """Whether Ray has restarted this process after its death."""
    with warnings.catch_warnings():
        # Ray itself asks by a property that it has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def _import(factory: str) -> Callable[[Context], Role]:
    """Import the function of ``module:function``."""
    module, _, attribute = factory.partition(":")
    build: Callable[[Context], Role] = getattr(import_module(module), attribute)
    return build


def origin_of(factory: str, settings: Settings, niceness: int) -> str:
    """A digest of what a process is made of."""
    return _digest(factory, settings.to_json(), niceness)


def _digest(factory: str, settings: bytes, niceness: int) -> str:
    return hashlib.sha256(b"\0".join((factory.encode(), settings, str(niceness).encode()))).hexdigest()


@cache
def _remote_class() -> Any:
    """Created once: Ray pickles each new one, which costs as much as starting a process."""
    return ray.remote(Process)


def launch(
    factory: str,
    settings: Settings,
    name: str,
    options: Options,
    *,
    restarts: int = 0,
    niceness: int = 0,
) -> Any:
    """Create the process ``name``; it outlives its creator. ``restarts``: how many times Ray restarts it, or
    ``RESTART_ALWAYS``. ``niceness``: the nice value (nice(1))."""
    remote = _remote_class().options(
        name=name,
        lifetime="detached",
        num_cpus=0,
        max_restarts=restarts,
        max_task_retries=0,
        max_concurrency=CALLS_AT_ONCE,
        **options,
    )
    proof = Vault.from_settings(settings).proof()
    return remote.remote(factory, settings.to_json(), name, proof, niceness)
