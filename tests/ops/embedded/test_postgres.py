"""The embedded PostgreSQL under every identity that this machine permits: started, killed and recovered."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from ops.embedded import identity
from ops.embedded.identity import identity_for, reachable_by_others
from ops.embedded.postgres import SETTINGS, WAL_SEGMENT_MB, EmbeddedPostgres, reason_of, wheel_bin_dir
from ops.embedded.process import Identity, ServerError
from tests.support.ops.waiting import gone, wait_until

ROOT = Path(__file__).parents[3]
SITE_PACKAGES = wheel_bin_dir().parents[2]

HOLD_A_SERVER = """
import sys, time
from pathlib import Path
from ops.embedded.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
print(server.start(), server.pid, flush=True)
sys.stdin.read()
server.stop()
"""


def identities() -> list[Identity]:
    """Identities with which this user can start a server."""
    if os.geteuid() != 0:
        return ["same"]
    default = identity_for(Path("/nowhere"), wheel_bin_dir() / "postgres")
    return ["namespace", "nobody"] if default == "namespace" else ["nobody"]


def python_for_anybody() -> str | None:
    """A Python like this one that the nobody user can run, when root runs the tests."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or not reachable_by_others(SITE_PACKAGES):
        return None
    for candidate in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if Path(candidate).exists() and reachable_by_others(Path(candidate)):
            return candidate
    return None


@pytest.fixture(params=identities())
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmbeddedPostgres]:
    chosen: Identity = request.param
    monkeypatch.setattr(identity, "identity_for", lambda data_dir, probe: chosen)
    # A path longer than a Unix socket's may be, behind a link, with a blank.
    real = tmp_path / ("deep-" * 20) / "with blank"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    server = EmbeddedPostgres(tmp_path / "link" / "var")
    yield server
    server.stop()


async def value(url: str, sql: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_data_survive_stop_and_kill(server: EmbeddedPostgres) -> None:
    url = server.start()
    assert await value(url, "CREATE TABLE kept (id integer)") is None
    await value(url, "INSERT INTO kept VALUES (1)")
    pid = server.pid
    server.stop()
    server.stop()
    assert pid is not None
    assert gone(pid)
    assert server.start() == url
    assert await value(url, "SELECT count(*) FROM kept") == 1

    await value(url, "INSERT INTO kept VALUES (2)")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await wait_until(lambda: not server.running())
    assert server.start() == url
    assert await value(url, "SELECT count(*) FROM kept") == 2


async def test_the_server_is_safe_and_private(server: EmbeddedPostgres) -> None:
    url = server.start()
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        assert await value(url, f"SHOW {name}") == SETTINGS[name] == "on"
    assert await value(url, "SHOW listen_addresses") == "127.0.0.1"
    assert await value(url, "SHOW server_encoding") == "UTF8"
    assert await value(url, "SHOW wal_segment_size") == f"{WAL_SEGMENT_MB}MB"
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(url, password="wrong")
    keys = server.data_dir.parent / "keys"
    assert [path.stat().st_mode & 0o077 for path in keys.iterdir()] == [0]


async def test_row_values_stay_out_of_the_log(server: EmbeddedPostgres) -> None:
    url = server.start()
    await value(url, "CREATE TABLE secret (value text UNIQUE)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await value(url, "INSERT INTO secret VALUES ('canary-4711'), ('canary-4711')")
    text = server.log.read_text()
    assert "duplicate key" in text
    assert "canary-4711" not in text


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
async def test_no_orphan_when_the_starter_dies(tmp_path: Path, death: signal.Signals) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_SERVER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with starter:
        assert starter.stdout is not None
        url, pid = starter.stdout.readline().decode().split()
        assert await value(url, "SELECT 1") == 1
        starter.send_signal(death)
    await wait_until(lambda: gone(int(pid)))


async def test_an_orphaned_server_is_stopped_first(tmp_path: Path) -> None:
    """Where the kernel cannot end the server with its parent, the next start finds it."""
    older, newer = EmbeddedPostgres(tmp_path), EmbeddedPostgres(tmp_path)
    older.start()
    pid = older.pid
    assert pid is not None
    url = newer.start()
    assert gone(pid)
    assert await value(url, "SELECT 1") == 1
    older.stop()
    newer.stop()


async def test_a_pid_file_with_another_process_does_not_prevent_a_start(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await wait_until(lambda: not server.running())
    path = server.data_dir / "postmaster.pid"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    assert await value(server.start(), "SELECT 1") == 1
    server.stop()


@pytest.mark.parametrize("chosen", [name for name in identities() if name == "nobody"])
async def test_the_nobody_user_gets_a_copy_of_unreachable_binaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Identity
) -> None:
    package = wheel_bin_dir().parents[1]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for folder in (package, package.with_name(package.name + ".libs")):
        shutil.copytree(folder, private / folder.name)
    public = Path(tempfile.mkdtemp(dir="/tmp"))
    public.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(public))
    monkeypatch.setattr(identity, "identity_for", lambda data_dir, probe: chosen)
    server = EmbeddedPostgres(private / "var", bin_dir=private / package.name / "pginstall" / "bin")
    try:
        assert await value(server.start(), "SELECT 1") == 1
        assert str(public) in Path(f"/proc/{server.pid}/cmdline").read_text()
    finally:
        server.stop()
        shutil.rmtree(public)


def test_a_failed_start_is_one_line_with_the_reason(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    server.start()
    server.stop()
    (server.data_dir / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(ServerError, match=r"^the embedded postgres did not start: ") as failure:
        server.start()
    assert "\n" not in str(failure.value)


def test_an_interrupted_first_start_is_repeated(tmp_path: Path) -> None:
    draft = tmp_path / "postgres.new"
    draft.mkdir()
    (draft / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(tmp_path)
    server.start()
    server.stop()
    assert not draft.exists()


async def as_an_ordinary_user(python: str) -> None:
    folder = Path("/tmp") / f"stanchion-test-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    command = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        python,
        "-B",
        "-c",
        HOLD_A_SERVER,
    ]
    environment = {"PATH": os.defpath, "PYTHONPATH": f"{ROOT}:{SITE_PACKAGES}", "HOME": "/nowhere"}
    starter = subprocess.Popen(
        [*command, str(folder / "var")],
        cwd="/",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert starter.stdout is not None
        url, pid = starter.stdout.readline().decode().split()
        assert await value(url, "SELECT 1") == 1
        assert Path(f"/proc/{pid}").stat().st_uid == 65534
        starter.communicate()
        assert starter.returncode == 0
        await wait_until(lambda: gone(int(pid)))
    finally:
        shutil.rmtree(folder)


# Root can test this only where an ordinary user can reach this environment and its Python.
ANYBODYS_PYTHON = python_for_anybody() or ""
if ANYBODYS_PYTHON:

    async def test_an_ordinary_user_can_start_it() -> None:
        await as_an_ordinary_user(ANYBODYS_PYTHON)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            b"creating files ... initdb: error: no space\ninitdb: removing contents of data directory",
            "creating files ... initdb: error: no space",
        ),
        (b"one\ntwo\n", "two"),
        (b"", "no message"),
    ],
)
def test_reason_of_a_failed_program_is_its_error(output: bytes, reason: str) -> None:
    assert reason_of(output) == reason
