"""The start-up sequence as a subprocess, with real servers and a fake of the actors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from actors.log import LOG_FILE
from ops.database.clients import DEMO_CLIENTS
from ops.supervision.control import SOCKET_FILE, restart
from tests.support.ops.waiting import gone, wait_until

ROOT = Path(__file__).parents[3]

# Arguments: the state folder and the behaviour of the actors: "serve", "fail" once started, "hang" during the
# start, "alone" while Ray cannot be joined, or "broken".
PROGRAM = """
import asyncio, sys
from dataclasses import dataclass
from actors.cluster.environment import RestartError
from actors.settings import Settings
from ops.cli import PORT_SETTINGS
from ops.supervision.errors import UpError
from ops.supervision.installation import InstallationError
from ops.supervision.up import up

var_dir, behaviour = sys.argv[1:]

@dataclass
class Addresses:
    base_url: str
    vision_url: str = "http://127.0.0.1:1"
    iso8583_host: str = "127.0.0.1"
    iso8583_port: int = 2
    metrics_url: str = "http://127.0.0.1:3/metrics"

class Actors:
    def __init__(self, settings):
        self.settings = settings

    async def join(self):
        if behaviour == "alone":
            raise UpError("Ray does not start")

    async def start(self):
        if behaviour == "hang":
            print("hanging", flush=True)
            await asyncio.Event().wait()
        assert self.settings.api_port > 0
        return Addresses(f"http://127.0.0.1:{self.settings.api_port}")

    async def stop(self):
        print("actors stopped", flush=True)

    async def restart(self, report):
        report("host-1 is host-2")
        await asyncio.sleep(0)
        if behaviour == "fail":
            raise RestartError("edge does not begin")
        report("edge is new")

    async def links(self):
        return []

    async def wait_failed(self):
        if behaviour == "fail":
            return "an actor has failed"
        await asyncio.Event().wait()

def load():
    if behaviour == "broken":
        raise UpError("the actors cannot be loaded")
    return Actors

try:
    up(Settings.load(var_dir=var_dir, **dict.fromkeys(PORT_SETTINGS, 0)), load)
except (InstallationError, UpError) as failure:
    print(f"stanchion: {failure}", file=sys.stderr)
    raise SystemExit(1)
"""


@dataclass
class Installation:
    """Processes of ``up`` on one state folder."""

    var_dir: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def spawn(self, mode: str = "serve") -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.var_dir), mode],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    async def started(self) -> subprocess.Popen[bytes]:
        (self.var_dir / "run.json").unlink(missing_ok=True)
        process = self.spawn()
        await wait_until(lambda: (self.var_dir / "run.json").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        return process

    def run_record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.var_dir / "run.json").read_bytes())
        return record

    def logged(self) -> list[str]:
        """The events of the log, in order."""
        text = (self.var_dir / LOG_FILE).read_text("utf-8")
        return [json.loads(line)["event"] for line in text.splitlines()]

    def last_lines(self, server: str) -> str:
        """The end of a server's log."""
        return (self.var_dir / "log" / f"{server}.log").read_text("utf-8", "replace")[-2_000:]

    def database_url(self) -> str:
        return str(json.loads((self.var_dir / "servers.json").read_bytes())["database_url"])

    def server_pids(self) -> list[int]:
        """The two servers: the children of the newest process."""
        pid = self.processes[-1].pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def installation(var_dir: Path) -> Iterator[Installation]:
    installation = Installation(var_dir)
    yield installation
    for process in installation.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_stops_cleanly_and_keeps_its_data(
    installation: Installation, number: signal.Signals
) -> None:
    process = await installation.started()
    record = installation.run_record()
    assert set(record) == {"base_url", "vision_url", "iso8583", "metrics_url", "tenants", "egress_ca_file"}
    assert record["iso8583"] == {"host": "127.0.0.1", "port": 2}
    assert [(c["name"], c["mode"], c["role"]) for c in record["tenants"]] == [
        ("demo", "test", "admin"),
        ("demo", "test", "user"),
        ("demo", "live", "admin"),
        ("rival", "test", "admin"),
        ("demo", "test", "owner"),
        ("demo", "live", "owner"),
        ("rival", "test", "owner"),
    ]
    assert (installation.var_dir / "run.json").stat().st_mode & 0o077 == 0
    servers = installation.server_pids()
    assert len(servers) == 2
    for _ in range(2):
        lines: list[str] = []
        await restart(installation.var_dir, lines.append)
        assert lines == ["host-1 is host-2", "edge is new"]
    assert (installation.var_dir / SOCKET_FILE).stat().st_mode & 0o077 == 0

    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert b"actors stopped" in output
    assert record["base_url"].encode() in output
    assert f"{record['base_url']}/console/enter/".encode() in output
    assert b"/console/enter/" not in json.dumps(record).encode()
    assert all(gone(pid) for pid in servers)
    assert not (installation.var_dir / "run.json").exists()
    assert not (installation.var_dir / SOCKET_FILE).exists()

    assert installation.logged() == ["starting", "migrated", "serving", "stopping", "stopped"]

    await installation.started()
    again = installation.run_record()
    assert again["tenants"] == record["tenants"]


def test_start_is_refused_if_a_failover_can_lose_decisions(
    installation: Installation, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANCHION_DATABASE_URL", with_two_servers(database_url))
    _output, errors = installation.spawn().communicate(timeout=60)
    assert errors.decode() == (
        "stanchion: a failover of PostgreSQL can lose acknowledged decisions: the address names 2 servers,"
        " but synchronous_standby_names is empty; accept it with STANCHION_ALLOW_DATA_LOSS=1\n"
    )


async def test_accepted_loss_is_a_warning(
    installation: Installation, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANCHION_DATABASE_URL", with_two_servers(database_url))
    monkeypatch.setenv("STANCHION_ALLOW_DATA_LOSS", "1")
    process = await installation.started()
    process.send_signal(signal.SIGTERM)
    output, _errors = process.communicate(timeout=60)
    assert b"WARNING: a failover of PostgreSQL can lose acknowledged decisions: the address" in output
    assert "data_loss_possible" in installation.logged()


def with_two_servers(url: str) -> str:
    """An address that names the server of ``url`` twice."""
    user, _, rest = url.rpartition("@")
    host, _, name = rest.partition("/")
    return f"{user}@{host},{host}/{name}"


async def test_a_second_supervisor_on_the_same_folder_is_refused(installation: Installation) -> None:
    first = await installation.started()
    second = installation.spawn()
    _output, errors = second.communicate(timeout=60)
    assert second.returncode == 1
    assert errors.decode() == f"stanchion: {installation.var_dir} is in use by process {first.pid}\n"
    assert first.poll() is None


async def test_killed_servers_are_restarted(installation: Installation) -> None:
    process = await installation.started()
    url = installation.database_url()
    servers = installation.server_pids()
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: all(gone(pid) for pid in servers))
    try:
        await wait_until(lambda: len(set(installation.server_pids()) - set(servers)) == 2)
    except AssertionError as failure:
        failure.add_note(installation.last_lines("postgres") + installation.last_lines("redis"))
        raise

    async def answers() -> int:
        while True:
            try:
                connection = await asyncpg.connect(url)
            except (OSError, asyncpg.PostgresError):
                continue
            count: int = await connection.fetchval("SELECT count(*) FROM clients")
            await connection.close()
            return count

    assert await answers() == len(DEMO_CLIENTS)
    assert process.poll() is None


async def test_a_killed_supervisor_leaves_no_orphan_and_a_startable_folder(
    installation: Installation,
) -> None:
    process = await installation.started()
    servers = installation.server_pids()
    tenants = installation.run_record()["tenants"]
    process.kill()
    await wait_until(lambda: all(gone(pid) for pid in servers))
    await installation.started()
    assert installation.run_record()["tenants"] == tenants


async def test_failed_actors_end_the_installation_with_a_reason(installation: Installation) -> None:
    process = installation.spawn("fail")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, b"stanchion: an actor has failed\n")
    assert b"actors stopped" in output


async def test_actors_that_cannot_be_imported_end_the_start_with_a_reason(installation: Installation) -> None:
    process = installation.spawn("broken")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, b"stanchion: the actors cannot be loaded\n")
    assert b"actors stopped" not in output
    assert b"Stopped; the data are kept." not in output


async def test_a_ray_that_does_not_start_ends_the_start_with_a_reason(installation: Installation) -> None:
    process = installation.spawn("alone")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, b"stanchion: Ray does not start\n")
    assert b"actors stopped" in output


async def test_a_stop_during_the_start_is_clean(installation: Installation) -> None:
    installation.var_dir.mkdir()
    (installation.var_dir / "run.json").write_text("left by a killed supervisor")
    process = installation.spawn("hang")
    assert process.stdout is not None
    for line in process.stdout:
        if line == b"hanging\n":
            break
    assert not (installation.var_dir / "run.json").exists()
    servers = installation.server_pids()
    process.send_signal(signal.SIGTERM)
    _output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert all(gone(pid) for pid in servers)
