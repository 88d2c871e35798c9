"""The start-up sequence of an installation, and its reverse.

Settings → embedded servers → migrations → demo clients → actors → ``run.json`` → serve until asked to stop.
Each step waits until the previous one works. On any exit, everything that was started is stopped in reverse
order. Two steps run beside others, because they take as long: the import of the actors, and of what later
steps need, beside the start of the servers, and the start of Ray beside the migrations.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any, Final, Protocol

import structlog

from actors.cluster.environment import RestartError
from actors.cluster.liveness import until_tick
from actors.log import configure
from actors.network.links.status import LinkStatus
from actors.settings import Settings
from actors.tls import ServerTls
from actors.tracing import check_exporter
from actors.vault import Vault
from ops.database.clients import ClientCredentials
from ops.database.key_check import KeyCheckError, check_master_key
from ops.database.local_owner import LOCAL_EMAIL
from ops.database.operator_acts import operator_of
from ops.database.users import LOCAL_OWNER, sign_in_link
from ops.embedded.local_https import with_local_egress
from ops.embedded.passwords import write_private
from ops.supervision.announcement import Addresses, greeting, run_record
from ops.supervision.control import ControlServer
from ops.supervision.errors import UpError
from ops.supervision.installation import RUN_FILE, Servers, locked
from ops.supervision.log_view import LogView
from ops.supervision.ports import check_links, with_free_ports
from ops.supervision.preparation import prepare
from ops.supervision.stop_signals import ignore_stop_signals, set_on_stop_signals, terminable, unless_stopped
from ops.supervision.terminal import tell
from stanchion import __version__

RESTART_POLL_SECONDS: Final = 0.2
"""A multiple of ``ROLE_CHECK_SECONDS``: both are due at one wake-up of the supervisor."""
ACTORS_STOP_SECONDS_MAX: Final = 60.0
LATER_IMPORTS: Final = ("redis", "redis.asyncio")
"""Modules that take long to import and are not needed before the embedded servers run."""

_log = structlog.get_logger(__name__)


class ProcessGroup(Protocol):
    """All Ray processes of an installation. ``join`` starts Ray, then ``start`` the processes. ``stop`` is
    safe after an interrupted ``join`` or ``start``."""

    async def join(self) -> None: ...
    async def start(self) -> Addresses: ...
    async def stop(self) -> None: ...
    async def wait_failed(self) -> str: ...
    async def restart(self, report: Callable[[str], None]) -> None: ...
    async def links(self) -> list[LinkStatus]: ...


MakeProcessGroup = Callable[[Settings], ProcessGroup]


def up(settings: Settings, load: Callable[[], MakeProcessGroup]) -> None:
    """Start an installation and serve until SIGINT or SIGTERM; returns after a clean stop.

    ``load`` imports the actors, in a thread of its own, and returns the constructor of their process group.

    Raises the one-line errors of each step (SettingsError, VaultError, InstallationError, ServerError,
    MigrationError, KeyCheckError, ClientError, UpError), after everything that was started has been stopped.
    Call it from the main thread.
    """
    with terminable(), locked(settings.var_dir), ThreadPoolExecutor(1) as beside:
        # A killed supervisor leaves this file behind; clients that wait for it must not get old addresses.
        (settings.var_dir / RUN_FILE).unlink(missing_ok=True)
        settings = with_free_ports(with_local_egress(settings))
        vault = Vault.from_settings(settings)
        # The processes read the TLS files; errors in them are reported here.
        ServerTls.from_settings(settings)
        ServerTls.of_metrics(settings)
        check_exporter(settings)
        check_links(settings)
        servers = Servers(settings)
        configure(settings.var_dir, settings.log_level, "supervisor")
        log = LogView(settings.var_dir, sys.stderr)
        try:
            log.start()
            _log.info("starting", pid=os.getpid(), version=__version__)
            tell(f"Starting the servers in {settings.var_dir} ...")
            loading = beside.submit(_load_beside, load)
            complete = servers.start()
            asyncio.run(_serve(complete, vault, servers, loading))
        except KeyboardInterrupt:
            pass  # asked to stop during the start
        finally:
            # A second Ctrl-C would prevent a clean shutdown of the servers.
            ignore_stop_signals()
            servers.stop()
            _log.info("stopped")
            log.stop()
    tell("Stopped; the data are kept.")


def _load_beside(load: Callable[[], MakeProcessGroup]) -> MakeProcessGroup:
    """``load``, after the modules that steps behind the start of the servers import."""
    for module in LATER_IMPORTS:
        import_module(module)
    return load()


async def _serve(
    settings: Settings, vault: Vault, servers: Servers, loading: Future[MakeProcessGroup]
) -> None:
    """All steps from the migrations on, inside the event loop."""
    stop = asyncio.Event()
    set_on_stop_signals(stop)
    make_processes = await unless_stopped(stop, asyncio.wrap_future(loading))
    if make_processes is None:
        return
    processes = make_processes(settings)
    control = ControlServer(
        settings.var_dir,
        partial(_restart, settings, processes),
        (RestartError, KeyCheckError),
        processes.links,
    )
    run_file = settings.var_dir / RUN_FILE
    try:
        clients = await unless_stopped(stop, _prepare_beside(processes.join(), settings, vault))
        if clients is None:
            return
        tell("Starting the actors ...")
        addresses = await unless_stopped(stop, processes.start())
        # Ray replaces signal handlers while it starts.
        set_on_stop_signals(stop)
        if addresses is not None:
            link = await _sign_in_link(settings, vault, addresses)
            await control.open()
            write_private(run_file, json.dumps(run_record(settings, addresses, clients), indent=2) + "\n")
            _log.info("serving")
            tell(greeting(addresses, clients, settings.var_dir, link))
            reason = await unless_stopped(stop, _first_failure(processes, servers))
            if reason is not None:
                raise UpError(reason)
    finally:
        run_file.unlink(missing_ok=True)
        _log.info("stopping")
        tell("Stopping ...")
        await control.close()
        await _stop_in_time(processes)


async def _sign_in_link(settings: Settings, vault: Vault, addresses: Addresses) -> str:
    """The address of a link that signs the local owner in, once."""
    link = await sign_in_link(
        settings.database_dsn, vault, LOCAL_EMAIL, operator_of(settings), create=LOCAL_OWNER
    )
    return f"{addresses.base_url}{settings.root_path}{link.path}"


async def _restart(settings: Settings, processes: ProcessGroup, report: Callable[[str], None]) -> None:
    """Restart all processes, after checking that the keys they will read are those of the database."""
    await check_master_key(settings.database_dsn, Vault.from_settings(settings))
    await processes.restart(report)


async def _prepare_beside(
    joining: Coroutine[Any, Any, None], settings: Settings, vault: Vault
) -> list[ClientCredentials]:
    """``prepare`` while Ray starts: both mostly wait for other processes."""
    joined = asyncio.create_task(joining)
    try:
        clients = await prepare(settings, vault)
        await joined
        return clients
    finally:
        joined.cancel()
        await asyncio.gather(joined, return_exceptions=True)


async def _stop_in_time(processes: ProcessGroup) -> None:
    """Stop the actors, but not longer than ``ACTORS_STOP_SECONDS_MAX``: the servers below them are stopped
    next."""
    try:
        await asyncio.wait_for(processes.stop(), ACTORS_STOP_SECONDS_MAX)
    except TimeoutError:
        tell(f"The actors did not end within {ACTORS_STOP_SECONDS_MAX:.0f} s.")


async def _first_failure(processes: ProcessGroup, servers: Servers) -> str:
    """Why the installation cannot continue. Embedded servers that end are restarted and are no reason."""
    failed = asyncio.ensure_future(processes.wait_failed())
    try:
        while not failed.done():
            for name in servers.revive():
                tell(f"{name} ended unexpectedly; restarting it.")
            await asyncio.wait((failed,), timeout=until_tick(RESTART_POLL_SECONDS))
        return failed.result()
    finally:
        failed.cancel()
