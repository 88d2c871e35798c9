"""Two PostgreSQL servers with synchronous replication on this machine, and the steps of a failover manager.

Clients and the standby reach each server through proxies of their own, so a server can be cut off. Promotion
leaves the new primary without a standby: like a failover manager with two servers, ``promote`` lets it commit
alone until ``rebuild`` has made the former primary its standby.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import asyncpg

from ops.chaos.environment.processes import descendants, signal_processes
from ops.chaos.environment.proxy import HOST, Proxy
from ops.chaos.errors import NotInjectedError
from ops.embedded.ports import free_ports
from ops.embedded.postgres import DATABASE, USER, EmbeddedPostgres

T = TypeVar("T")

STANDBY_SECONDS_MAX: Final = 60.0
PROMOTION_SECONDS_MAX: Final = 30
_REPLICATION: Final = f"host replication {USER} {HOST}/32 scram-sha-256\n"
_IN_SYNC: Final = (
    "SELECT count(*) FROM pg_stat_replication"
    " WHERE application_name = $1 AND state = 'streaming' AND sync_state = 'sync'"
)
_STREAMS: Final = (
    "SELECT count(*) FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'"
)


class ReplicatedPostgres(EmbeddedPostgres):
    """A server that is created as the primary, or as the standby of ``origin``."""

    def __init__(self, folder: Path, label: str, port: int) -> None:
        super().__init__(folder / label)
        # Roles and passwords are replicated.
        self._password_path = folder / "keys" / "postgres.password"
        self.label = label
        """Its name as a standby."""
        self.port = port
        self.origin: ReplicatedPostgres | None = None
        self.origin_port = 0
        """The port at which the standby reaches ``origin``."""
        self.clients: Proxy
        self.replication: Proxy

    def _create_cluster(self) -> None:
        if self.origin is None:
            super()._create_cluster()
            with (self.data_dir / "pg_hba.conf").open("a") as rules:
                rules.write(_REPLICATION)
            return
        draft = self._new_draft()
        self._run(draft, "pg_basebackup", "-d", self.origin.url, "-X", "stream", "--checkpoint=fast")
        with (draft / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{self._origin_address()}'\n")
            settings.write("synchronous_standby_names = ''\n")
        (draft / "standby.signal").touch()
        draft.rename(self.data_dir)

    def _origin_address(self) -> str:
        return (
            f"host={HOST} port={self.origin_port} user={USER} password={self.password}"
            f" application_name={self.label}"
        )

    def forget(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def pids(self) -> list[int]:
        """The server and its children. Raises NotInjectedError when it does not run."""
        if self.pid is None:
            raise NotInjectedError("the server is not running")
        return descendants(self.pid)


class PostgresPair:
    """An async context manager. ``dsn`` names both servers, behind their proxies."""

    def __init__(self, folder: Path) -> None:
        one, two = free_ports(2)
        self.primary = ReplicatedPostgres(folder, "one", one)
        self.standby = ReplicatedPostgres(folder, "two", two)
        self._both = (self.primary, self.standby)
        self._frozen: list[int] = []
        self._stack = AsyncExitStack()
        # Servers end with the thread that started them, and must not block the loop of the proxies.
        self._thread = ThreadPoolExecutor(1, "postgres-pair")

    async def __aenter__(self) -> Self:
        self._stack.callback(self._thread.shutdown)
        try:
            for server in self._both:
                server.clients = await self._stack.enter_async_context(Proxy(server.port))
                server.replication = await self._stack.enter_async_context(Proxy(server.port))
            for server in self._both:
                self._stack.push_async_callback(self._in_thread, server.stop)
            await self._in_thread(self.primary.start)
            await self.rebuild()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.wake()
        await self._stack.aclose()

    @property
    def dsn(self) -> str:
        """The address for clients."""
        hosts = ",".join(f"{HOST}:{server.clients.port}" for server in self._both)
        return f"postgresql://{USER}:{self.primary.password}@{hosts}/{DATABASE}"

    # --- faults of the primary ------------------------------------------------------------------------------

    async def kill(self) -> None:
        """kill -9 of every process of the primary."""
        signal_processes(signal.SIGKILL, self.primary.pids())

    async def freeze(self) -> None:
        """SIGSTOP of every process of the primary."""
        self._frozen = self.primary.pids()
        signal_processes(signal.SIGSTOP, self._frozen)

    async def cut_off(self) -> None:
        """The network of the primary drops everything in both directions."""
        for proxy in (self.primary.clients, self.primary.replication):
            proxy.hold()

    async def demote(self) -> None:
        """The primary refuses writes from now on."""
        await self._execute(self.primary, "ALTER SYSTEM SET default_transaction_read_only = on")
        await self._execute(self.primary, "SELECT pg_reload_conf()")

    # --- steps of a failover manager ------------------------------------------------------------------------

    async def promote(self) -> None:
        """Promote the standby, which commits alone until ``rebuild``."""
        if not (await self._fetch(self.standby, "SELECT pg_promote(true, $1)", PROMOTION_SECONDS_MAX))[0][0]:
            raise NotInjectedError("the standby was not promoted in time")
        self.primary, self.standby = self.standby, self.primary

    async def return_former(self) -> None:
        """The former primary comes back with its data, unaware of the promotion."""
        self.wake()
        for proxy in (self.standby.clients, self.standby.replication):
            proxy.release()
        if not self.standby.running():
            await self._in_thread(self.standby.start)

    def wake(self) -> None:
        """SIGCONT of the processes that were frozen."""
        frozen, self._frozen = self._frozen, []
        for pid in frozen:
            try:
                signal_processes(signal.SIGCONT, [pid])
            except NotInjectedError:
                continue

    async def rebuild(self) -> None:
        """Make the other server a standby, for which the commits of the primary wait. Raises TimeoutError."""
        standby, primary = self.standby, self.primary
        await self._in_thread(standby.forget)
        standby.origin, standby.origin_port = primary, primary.replication.port
        await self._in_thread(standby.start)
        await self._until(lambda: self._counts(_STREAMS))
        await self._execute(primary, f"ALTER SYSTEM SET synchronous_standby_names = '{standby.label}'")
        await self._execute(primary, "SELECT pg_reload_conf()")
        await self._until(lambda: self._counts(_IN_SYNC))

    # --- observation ----------------------------------------------------------------------------------------

    async def former_unused(self, seconds_max: float) -> bool:
        """Whether the clients leave the former primary within ``seconds_max``. Their short looks at it do not
        count: one instant without any connection is enough."""
        end = asyncio.get_running_loop().time() + seconds_max
        while self.standby.clients.connections:
            if asyncio.get_running_loop().time() > end:
                return False
            await asyncio.sleep(0.005)
        return True

    async def _counts(self, statement: str) -> bool:
        return bool((await self._fetch(self.primary, statement, self.standby.label))[0][0])

    async def _fetch(
        self, server: ReplicatedPostgres, statement: str, *arguments: Any
    ) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(server.url, timeout=10)
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            await connection.close(timeout=10)

    async def _execute(self, server: ReplicatedPostgres, statement: str) -> None:
        await self._fetch(server, statement)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(STANDBY_SECONDS_MAX):
            while not await condition():  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(0.05)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
