"""Connections to PostgreSQL's primary, out of the servers that a database address names.

``connect`` asks all servers at the same time and takes the one that accepts writes. For a while two servers
can claim that: a primary that was frozen or cut off has not noticed the promotion of its standby. A promotion
begins a new timeline (PostgreSQL manual, 26.3.5), so the newest timeline wins, and a process uses no server
whose timeline is older than one that it has seen. ``PrimaryWatch`` applies this rule to idle connections.

    CannotConnectError      no server of the address accepts connections and writes
    └── NoAnswerError       no server has answered in time
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakSet

import asyncpg
import structlog
from asyncpg.connect_utils import SessionAttribute

from actors.database_address import DEFAULT_PORT, Server, address_of, servers_of
from actors.niceness import share_niceness
from actors.periodic import PeriodicTask
from actors.sqlstates import STATEMENT_FAILURES
from engine.limits import PRIMARY_PROBE_SECONDS, PRIMARY_WATCH_SECONDS, PRIMARY_WATCH_SECONDS_OF_ONE

COMPARE_SECONDS: Final = 0.1
"""Time for the other servers to answer after one has accepted: one of them may be on a newer timeline."""
LAGGARD_SECONDS: Final = 1.0
"""Time for the other servers to answer after one has refused. Frozen servers never answer."""
# ``pg_control_checkpoint`` shows the timeline of a promotion only after the next checkpoint.
_IDENTITY: Final = """
    SELECT (SELECT system_identifier FROM pg_control_system()) AS cluster,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline,
        inet_client_port() AS client_port
"""
_WITHOUT_IDENTITY: Final = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
)
"""Errors of services that hide their write-ahead log."""

_log = structlog.get_logger(__name__)


class CannotConnectError(OSError):
    """No server of the address accepts connections and writes. The message is one line with a reason for each
    server, without text of the servers."""

    permanent: bool = False
    """Whether the address is wrong for every server, so that a later attempt fails too."""
    read_only: bool = False
    """Whether all servers are read-only."""


class NoAnswerError(CannotConnectError, TimeoutError):
    """No server of the address has answered in time."""


class PrimaryConnection(asyncpg.Connection):
    """A connection to a server that accepted writes when it was opened."""

    cluster: int = 0
    """Identifier of the server's database cluster; 0 if the service hides it."""
    timeline: int = 0
    """Timeline on which the server was primary; 0 if the service hides it."""


AnyConnection: TypeAlias = "asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]"

_newest: Final[dict[int, int]] = {}
"""The newest timeline that this process has seen, by cluster."""
_open: Final[WeakSet[PrimaryConnection]] = WeakSet()


async def connect(
    dsn: str,
    application_name: str,
    timeout_s: float,
    settings: Mapping[str, str],
    *,
    command_seconds: float | None = None,
) -> PrimaryConnection:
    """Connect to the primary among the servers of ``dsn``, within ``timeout_s``. ``settings`` are those of
    the session; ``command_seconds`` limits each of its statements.

    Raises CannotConnectError.
    """
    servers = servers_of(dsn)
    options: dict[str, Any] = {
        "timeout": timeout_s,
        "command_timeout": command_seconds,
        "server_settings": {"application_name": application_name, **settings},
    }
    tasks = [asyncio.create_task(_connect_to(server, dsn, options)) for server in servers]
    chosen: PrimaryConnection | None = None
    try:
        await _answers(tasks, timeout_s)
        chosen = _choose([task.result() for task in tasks if _succeeded(task)])
        if chosen is None:
            raise _refusal(dsn, servers, tasks)
        _open.add(chosen)
        return chosen
    finally:
        for task in tasks:
            _abandon(task, except_for=chosen)


def accepts_writes(connection: AnyConnection) -> bool:
    """Whether the connection is open, and its server has neither reported itself as read-only nor been
    replaced by a server on a newer timeline. Needs no round trip: servers report with their answers."""
    if connection.is_closed():
        return False
    reported = connection.get_settings()
    if "on" in (
        getattr(reported, "in_hot_standby", "off"),
        getattr(reported, "default_transaction_read_only", "off"),
    ):
        return False
    return getattr(connection, "timeline", 0) >= _newest.get(getattr(connection, "cluster", 0), 0)


def drop_outdated(*, every: bool = False) -> int:
    """Terminate the connections of this process whose server is not the primary, or ``every`` connection;
    returns their number. A statement in flight fails with an unknown outcome."""
    outdated = [each for each in list(_open) if not each.is_closed() and (every or not accepts_writes(each))]
    for connection in outdated:
        connection.terminate()
    return len(outdated)


class PrimaryWatch:
    """Looks for a newer primary at regular intervals, and drops connections to servers that it has replaced.
    Without it a process would notice only when it uses a connection."""

    def __init__(self, dsn: str, seconds: float | None = None) -> None:
        """``seconds``: the interval; by default longer for an address that names one server."""
        several = len(servers_of(dsn)) > 1
        self._dsn = dsn
        self._task = PeriodicTask(
            "primary-watch",
            self._step,
            seconds or (PRIMARY_WATCH_SECONDS if several else PRIMARY_WATCH_SECONDS_OF_ONE),
            delay=seconds or PRIMARY_WATCH_SECONDS,
            tolerated=STATEMENT_FAILURES,
        )

    def start(self) -> None:
        """Start in the running loop. Safe to call twice."""
        self._task.start()

    async def stop(self) -> None:
        """Safe to call twice."""
        await self._task.stop()

    async def _step(self) -> None:
        if all(each.is_closed() for each in list(_open)):
            return
        read_only = False
        try:
            probe = await connect(self._dsn, "stanchion-watch", PRIMARY_PROBE_SECONDS, {})
            await probe.close(timeout=PRIMARY_PROBE_SECONDS)
        except CannotConnectError as refusal:
            # Idle sessions have not reported yet that their server is read-only.
            read_only = refusal.read_only
            raise
        finally:
            dropped = drop_outdated(every=read_only)
            if dropped:
                _log.warning("connections_to_former_primary_dropped", count=dropped)


async def _connect_to(server: Server, dsn: str, options: Mapping[str, Any]) -> PrimaryConnection:
    connection: PrimaryConnection = await asyncpg.connect(
        address_of(dsn, server),
        target_session_attrs=SessionAttribute.read_write,
        connection_class=PrimaryConnection,
        **options,
    )
    try:
        identity = await connection.fetchrow(_IDENTITY)
    except _WITHOUT_IDENTITY:
        return connection
    except BaseException:
        connection.terminate()
        raise
    assert identity is not None, "the statement returns one row"
    connection.cluster, connection.timeline = identity["cluster"], identity["timeline"]
    share_niceness(connection.get_server_pid(), identity["client_port"])
    return connection


async def _answers(tasks: Collection[asyncio.Task[PrimaryConnection]], timeout_s: float) -> None:
    """Wait until all servers have answered, or until the others have had time enough after the first."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    pending: Collection[asyncio.Task[PrimaryConnection]] = tasks
    while pending and end > loop.time():
        done, pending = await asyncio.wait(
            pending, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED
        )
        if done:
            accepted = any(_succeeded(task) for task in done)
            end = min(end, loop.time() + (COMPARE_SECONDS if accepted else LAGGARD_SECONDS))


def _choose(connections: Sequence[PrimaryConnection]) -> PrimaryConnection | None:
    """The connection on the newest timeline; ``None`` if the process has seen a newer one."""
    if len({each.cluster for each in connections}) > 1:
        raise CannotConnectError("the servers of the database address belong to different clusters")
    for each in connections:
        _newest[each.cluster] = max(each.timeline, _newest.get(each.cluster, 0))
    return next((each for each in connections if accepts_writes(each)), None)


def _succeeded(task: asyncio.Task[PrimaryConnection]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _abandon(task: asyncio.Task[PrimaryConnection], except_for: PrimaryConnection | None) -> None:
    """Terminate the connection that ``task`` makes or has made."""

    def ended(task: asyncio.Task[PrimaryConnection]) -> None:
        if _succeeded(task) and task.result() is not except_for:
            task.result().terminate()

    task.cancel()
    task.add_done_callback(ended)


def _refusal(
    dsn: str, servers: Sequence[Server], tasks: Sequence[asyncio.Task[PrimaryConnection]]
) -> CannotConnectError:
    """One line with the reason of each server."""
    names = [f"{host}:{port}" for host, port in servers] if len(servers) > 1 else [_name(dsn)]
    reasons = [f"{name} {_reason(task)}" for name, task in zip(names, tasks, strict=True)]
    silent = all(reason.endswith(_SILENT) for reason in reasons)
    made = NoAnswerError if silent else CannotConnectError
    refusal = made("no server accepts connections and writes: " + ", ".join(reasons))
    failures = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    if len(failures) == len(tasks):
        refusal.permanent = all(isinstance(each, _PERMANENT) for each in failures)
        refusal.read_only = all(isinstance(each, _READ_ONLY) for each in failures)
    return refusal


def _name(dsn: str) -> str:
    parts = urlsplit(dsn)
    return f"{parts.hostname or 'the server'}:{parts.port or DEFAULT_PORT}"


_SILENT: Final = "does not answer"
_READ_ONLY: Final = asyncpg.TargetServerAttributeNotMatched
_PERMANENT: Final = (
    asyncpg.InterfaceError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    ValueError,
)


def _reason(task: asyncio.Task[PrimaryConnection]) -> str:
    """Why the server was not chosen."""
    if not task.done() or task.cancelled():
        return _SILENT
    match task.exception():
        case None:
            return "is a former primary, which has been replaced"
        case TimeoutError():
            return _SILENT
        case asyncpg.TargetServerAttributeNotMatched():
            return "is read-only"
        case asyncpg.CannotConnectNowError():
            return "is starting or stopping"
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "refuses the user or the password"
        case asyncpg.InvalidCatalogNameError():
            return "has no such database"
        case asyncpg.PostgresError() as refusal:
            return f"answers with SQLSTATE {refusal.sqlstate}"
        case socket.gaierror():
            return "has an unknown name"
        case ConnectionRefusedError():
            return "accepts no connections"
        case OSError():
            return "cannot be reached"
        case failure:
            return f"failed: {type(failure).__name__}"
