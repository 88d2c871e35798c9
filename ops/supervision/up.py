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
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import structlog

from actors.cluster.environment import RestartError
from actors.cluster.liveness import until_tick
from actors.database_address import role_of, servers_of
from actors.journal.replication import data_loss
from actors.log import configure
from actors.network.links.file import configured_links
from actors.network.links.status import LinkStatus
from actors.settings import PREFIX, Settings
from actors.tls import ServerTls
from actors.tracing import check_exporter
from actors.vault import Vault
from engine.limits import SIGN_IN_LINK_MINUTES
from ops.database import process_role
from ops.database.clients import ClientCredentials, ensure_demo_clients
from ops.database.key_check import KeyCheckError, check_master_key
from ops.database.local_owner import LOCAL_EMAIL
from ops.database.migrate import applied_line, migrate
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.database.operator_connection import connect_operator
from ops.database.users import LOCAL_OWNER, sign_in_link
from ops.embedded.local_https import with_local_egress
from ops.embedded.passwords import write_private
from ops.embedded.ports import free_ports
from ops.supervision.control import ControlServer
from ops.supervision.installation import RUN_FILE, Servers, locked
from ops.supervision.log_view import LogView
from stanchion import __version__

T = TypeVar("T")

CLIENTS_FILE: Final = "keys/demo-clients.json"
DEPENDENCY_SECONDS_MAX: Final = 30.0
RESTART_POLL_SECONDS: Final = 0.2
"""A multiple of ``ROLE_CHECK_SECONDS``: both are due at one wake-up of the supervisor."""
ACTORS_STOP_SECONDS_MAX: Final = 60.0
LATER_IMPORTS: Final = ("redis", "redis.asyncio")
"""Modules that take long to import and are not needed before the embedded servers run."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_log = structlog.get_logger(__name__)


class ListenAddresses(Protocol):
    """The addresses on which a started installation listens."""

    @property
    def base_url(self) -> str: ...
    @property
    def vision_url(self) -> str: ...
    @property
    def iso8583_host(self) -> str: ...
    @property
    def iso8583_port(self) -> int: ...
    @property
    def metrics_url(self) -> str: ...


class ProcessGroup(Protocol):
    """All Ray processes of an installation. ``join`` starts Ray, then ``start`` the processes. ``stop`` is
    safe after an interrupted ``join`` or ``start``."""

    async def join(self) -> None: ...
    async def start(self) -> ListenAddresses: ...
    async def stop(self) -> None: ...
    async def wait_failed(self) -> str: ...
    async def restart(self, report: Callable[[str], None]) -> None: ...
    async def links(self) -> list[LinkStatus]: ...


MakeProcessGroup = Callable[[Settings], ProcessGroup]


class UpError(Exception):
    """The installation cannot start or continue. The message is one line."""


def up(settings: Settings, load: Callable[[], MakeProcessGroup]) -> None:
    """Start an installation and serve until SIGINT or SIGTERM; returns after a clean stop.

    ``load`` imports the actors, in a thread of its own, and returns the constructor of their process group.

    Raises the one-line errors of each step (SettingsError, VaultError, InstallationError, ServerError,
    MigrationError, KeyCheckError, ClientError, UpError), after everything that was started has been stopped.
    Call it from the main thread.
    """
    with _terminable(), locked(settings.var_dir), ThreadPoolExecutor(1) as beside:
        # A killed supervisor leaves this file behind; clients that wait for it must not get old addresses.
        (settings.var_dir / RUN_FILE).unlink(missing_ok=True)
        settings = _with_ports(with_local_egress(settings))
        vault = Vault.from_settings(settings)
        # The processes read the TLS files; errors in them are reported here.
        ServerTls.from_settings(settings)
        ServerTls.of_metrics(settings)
        check_exporter(settings)
        _check_links(settings)
        servers = Servers(settings)
        configure(settings.var_dir, settings.log_level, "supervisor")
        log = LogView(settings.var_dir, sys.stderr)
        try:
            log.start()
            _log.info("starting", pid=os.getpid(), version=__version__)
            _print(f"Starting the servers in {settings.var_dir} ...")
            loading = beside.submit(_load_beside, load)
            complete = servers.start()
            asyncio.run(_serve(complete, vault, servers, loading))
        except KeyboardInterrupt:
            pass  # asked to stop during the start
        finally:
            _stop_undisturbed(servers)
            _log.info("stopped")
            log.stop()
    _print("Stopped; the data are kept.")


def _load_beside(load: Callable[[], MakeProcessGroup]) -> MakeProcessGroup:
    """``load``, after the modules that steps behind the start of the servers import."""
    for module in LATER_IMPORTS:
        import_module(module)
    return load()


@contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM unwind the stack like SIGINT, so that the clean-up of every step runs."""
    previous = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _stop_undisturbed(servers: Servers) -> None:
    """Stop the servers and ignore further signals: a second Ctrl-C would prevent their clean shutdown."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    servers.stop()


def _with_ports(settings: Settings) -> Settings:
    """Replace each port 0 by a free port, and refuse a port that is taken before anything is started."""
    ports = {
        "api_port": settings.api_host,
        "vision_port": settings.api_host,
        "iso8583_port": settings.iso8583_host,
        "metrics_port": settings.metrics_host,
    }
    chosen = dict(zip(ports, free_ports(len(ports)), strict=True))
    for name, host in ports.items():
        port = getattr(settings, name)
        # In a cluster, servers of an earlier supervisor may still use these ports on the nodes.
        ours = settings.ray_address is None or name == "metrics_port"
        if ours and port and not _can_listen(host, port):
            raise UpError(f"port {port} is taken; set {PREFIX}{name.upper()}, or use --ports auto")
    return settings.replace(**{name: port for name, port in chosen.items() if getattr(settings, name) == 0})


def _check_links(settings: Settings) -> None:
    """Report errors in ``links.toml`` before anything is started, and warn of links without encryption.
    Raises LinksError and UpError."""
    for entry in configured_links(settings):
        if entry.in_plain_text:
            _print(f"WARNING: link {entry.name} uses {entry.host} without encryption.")
        ours = settings.links is not None and settings.ray_address is None and entry.listens
        if ours and not _can_listen(entry.host, entry.port):
            raise UpError(f"port {entry.port} of link {entry.name} is taken")


def _can_listen(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


async def _serve(
    settings: Settings, vault: Vault, servers: Servers, loading: Future[MakeProcessGroup]
) -> None:
    """All steps from the migrations on, inside the event loop."""
    stop = asyncio.Event()
    _stop_on_signals(stop)
    make_processes = await _unless(stop, asyncio.wrap_future(loading))
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
        clients = await _unless(stop, _prepare_beside(processes.join(), settings, vault))
        if clients is None:
            return
        _print("Starting the actors ...")
        addresses = await _unless(stop, processes.start())
        # Ray replaces signal handlers while it starts.
        _stop_on_signals(stop)
        if addresses is not None:
            link = await _sign_in_link(settings, vault, addresses)
            await control.open()
            write_private(run_file, json.dumps(run_record(settings, addresses, clients), indent=2) + "\n")
            _log.info("serving")
            _print(greeting(addresses, clients, settings.var_dir, link))
            reason = await _unless(stop, _first_failure(processes, servers))
            if reason is not None:
                raise UpError(reason)
    finally:
        run_file.unlink(missing_ok=True)
        _log.info("stopping")
        _print("Stopping ...")
        await control.close()
        await _stop_in_time(processes)


async def _sign_in_link(settings: Settings, vault: Vault, addresses: ListenAddresses) -> str:
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
    """``_prepare`` while Ray starts: both mostly wait for other processes."""
    joined = asyncio.create_task(joining)
    try:
        clients = await _prepare(settings, vault)
        await joined
        return clients
    finally:
        joined.cancel()
        await asyncio.gather(joined, return_exceptions=True)


async def _prepare(settings: Settings, vault: Vault) -> list[ClientCredentials]:
    """Wait for the dependencies, migrate the database, and check that keys and clients match it."""
    # In a cluster, processes of the previous version may still be running.
    shared = settings.ray_address is not None
    owner = settings.migrations_dsn
    applied = await migrate(
        owner, patience_seconds=DEPENDENCY_SECONDS_MAX, before_only=shared, keys=lambda: vault
    )
    if applied:
        _log.info("migrated", applied=applied)
        _print(applied_line(applied))
        await record_alone(
            owner, operator_of(settings), on_installation("migrate_database", {"applied": applied})
        )
    await _check_replication(settings)
    await process_role.grant(owner, role_of(settings.database_dsn))
    await check_master_key(settings.database_dsn, vault)
    await _wait_for_redis(settings.redis_dsn)
    return await ensure_demo_clients(settings.database_dsn, vault, settings.var_dir / CLIENTS_FILE)


async def _check_replication(settings: Settings) -> None:
    """Raise UpError if a failover of PostgreSQL can lose acknowledged decisions, unless the settings accept
    that."""
    dsn = settings.migrations_dsn
    connection = await connect_operator(dsn)
    try:
        servers = max(len(servers_of(each)) for each in (dsn, settings.database_dsn))
        reason = await data_loss(connection, servers)
    finally:
        await connection.close(timeout=10)
    if reason is None:
        return
    if not settings.allow_data_loss:
        raise UpError(
            f"a failover of PostgreSQL can lose acknowledged decisions: {reason}; accept it with"
            f" {PREFIX}ALLOW_DATA_LOSS=1"
        )
    _log.warning("data_loss_possible", reason=reason)
    _print(f"WARNING: a failover of PostgreSQL can lose acknowledged decisions: {reason}.")


async def _stop_in_time(processes: ProcessGroup) -> None:
    """Stop the actors, but not longer than ``ACTORS_STOP_SECONDS_MAX``: the servers below them are stopped
    next."""
    try:
        await asyncio.wait_for(processes.stop(), ACTORS_STOP_SECONDS_MAX)
    except TimeoutError:
        _print(f"The actors did not end within {ACTORS_STOP_SECONDS_MAX:.0f} s.")


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)


async def _unless(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """The result of ``work``, or None if ``stop`` is set first; ``work`` is then cancelled and has ended."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait((working, stopping))


async def _first_failure(processes: ProcessGroup, servers: Servers) -> str:
    """Why the installation cannot continue. Embedded servers that end are restarted and are no reason."""
    failed = asyncio.ensure_future(processes.wait_failed())
    try:
        while not failed.done():
            for name in servers.revive():
                _print(f"{name} ended unexpectedly; restarting it.")
            await asyncio.wait((failed,), timeout=until_tick(RESTART_POLL_SECONDS))
        return failed.result()
    finally:
        failed.cancel()


async def _wait_for_redis(url: str) -> None:
    """Return once Redis answers. Raises UpError after ``DEPENDENCY_SECONDS_MAX``."""
    from redis.asyncio import Redis
    from redis.exceptions import AuthenticationError, RedisError

    deadline = time.monotonic() + DEPENDENCY_SECONDS_MAX
    async with Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0) as client:
        while True:
            try:
                await client.ping()
                return
            except AuthenticationError:
                raise UpError("Redis refuses the password of STANCHION_REDIS_URL") from None
            except (RedisError, OSError):
                if time.monotonic() > deadline:
                    raise UpError("Redis cannot be reached; check STANCHION_REDIS_URL") from None
            await asyncio.sleep(0.2)


def run_record(
    settings: Settings, addresses: ListenAddresses, clients: list[ClientCredentials]
) -> dict[str, Any]:
    """The content of ``run.json``."""
    return {
        "base_url": addresses.base_url,
        "vision_url": addresses.vision_url,
        "iso8583": {"host": addresses.iso8583_host, "port": addresses.iso8583_port},
        "metrics_url": addresses.metrics_url,
        "tenants": [asdict(credentials) for credentials in clients],
        "egress_ca_file": str(settings.egress_ca_file) if settings.egress_ca_file else None,
    }


def greeting(
    addresses: ListenAddresses, clients: list[ClientCredentials], var_dir: Path, sign_in: str
) -> str:
    """The addresses, the link into the console, and the commands of a first API request to paste."""
    admin = next(client for client in clients if (client.mode, client.role) == ("test", "admin"))
    base_url = addresses.base_url
    return f"""
Stanchion is up.
  API          {base_url}   (description: {base_url}/docs/openapi.json)
  console      {base_url}/console
  vision host  {addresses.vision_url}
  ISO 8583     {_wire(addresses)}
  metrics      {addresses.metrics_url}
  clients      {var_dir / RUN_FILE}

Open the console; this link works once, for {SIGN_IN_LINK_MINUTES} minutes (another: stanchion sign-in):
  {sign_in}

Try it (test mode, tenant "{admin.name}"):
  TOKEN=$(curl -s {base_url}/v1/oauth/token -d grant_type=client_credentials \\
    -u {admin.client_id}:{admin.client_secret} \\
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
  curl -s {base_url}/v1/programs -H "Authorization: Bearer $TOKEN"

Ctrl-C stops everything; the data stay in {var_dir}.
"""


def _wire(addresses: ListenAddresses) -> str:
    """The address for messages, or the command that lists the links where none listens."""
    if not addresses.iso8583_port:
        return "no link listens: stanchion links"
    return f"{addresses.iso8583_host}:{addresses.iso8583_port}"


def _print(text: str) -> None:
    """Print to the terminal; flushed, because the output of a supervisor is often a file."""
    print(text, flush=True)
