"""An installation on this machine: the folder with its state, the lock on it, and the servers below it.

A lock file ensures that only one supervisor runs on a folder. Commands that need only the database use the
running servers, or start the embedded PostgreSQL for their own duration.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from actors.settings import Settings
from ops.database import process_role
from ops.embedded.passwords import write_private
from ops.embedded.postgres import PROCESS_USER, EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.supervision.restarter import ServerRestarter

RUN_FILE: Final = "run.json"
SERVERS_FILE: Final = "servers.json"
LOCK_FILE: Final = "lock"


class InstallationError(Exception):
    """The folder of an installation cannot be used. The message is one line."""


@contextmanager
def locked(var_dir: Path) -> Iterator[None]:
    """Lock the folder for this process; the lock also ends if the process is killed. Raises
    InstallationError."""
    try:
        var_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (var_dir / LOCK_FILE).open("a+")
    except OSError as failure:
        raise InstallationError(f"{var_dir} cannot be used: {failure.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallationError(f"{var_dir} is in use by process {_holder(file)}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "?"


class Servers:
    """The embedded servers, unless the settings name the operator's own. The caller holds the folder's
    lock."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file = settings.var_dir / SERVERS_FILE
        self._postgres = EmbeddedPostgres(settings.var_dir) if settings.database_url is None else None
        self._redis = EmbeddedRedis(settings.var_dir) if settings.redis_url is None else None
        embedded = (("PostgreSQL", self._postgres), ("Redis", self._redis))
        self._revivals = {name: ServerRestarter(server) for name, server in embedded if server is not None}

    def start(self) -> Settings:
        """Start the embedded servers; returns the settings with all addresses. Raises ServerError and
        MigrationError.

        Call it from a thread that lives as long as the servers: they end with it.
        """
        changes: dict[str, str] = {}
        if self._postgres is not None:
            owner = changes["migrations_database_url"] = self._postgres.start()
            asyncio.run(process_role.create(owner, PROCESS_USER, self._postgres.process_password))
            changes["database_url"] = self._postgres.process_url
        if self._redis is not None:
            changes["redis_url"] = self._redis.start()
        complete = self._settings.replace(**changes)
        write_private(
            self._file,
            json.dumps(
                {
                    "database_url": complete.database_dsn,
                    "migrations_database_url": complete.migrations_dsn,
                    "redis_url": complete.redis_dsn,
                }
            )
            + "\n",
        )
        return complete

    def revive(self) -> list[str]:
        """Restart servers that have ended unexpectedly, with back-off and without waiting for them. Returns
        the names of those that have just ended."""
        return [name for name, revival in self._revivals.items() if revival.step()]

    def stop(self) -> None:
        """Stop them in reverse order. Safe to call twice."""
        self._file.unlink(missing_ok=True)
        if self._redis is not None:
            self._redis.stop()
        if self._postgres is not None:
            self._postgres.stop()


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The address of the installation's database for one operator command, with the role that owns the
    tables: the operator's own, the running embedded one, or one started for this command.

    Raises InstallationError or ServerError.
    """
    with ExitStack() as stack:
        if settings.database_url is not None:
            dsn = settings.migrations_dsn
        else:
            try:
                stack.enter_context(locked(settings.var_dir))
            except InstallationError as busy:
                dsn = _running(settings.var_dir, busy)
            else:
                postgres = EmbeddedPostgres(settings.var_dir)
                stack.callback(postgres.stop)
                dsn = postgres.start()
        yield dsn


def _running(var_dir: Path, busy: InstallationError) -> str:
    """The database address of the supervisor that holds ``var_dir``; raises ``busy`` until its servers are
    up."""
    try:
        servers = json.loads((var_dir / SERVERS_FILE).read_bytes())
        # A supervisor of the previous release writes one address only.
        return str(servers.get("migrations_database_url", servers["database_url"]))
    except FileNotFoundError:
        raise busy from None
