"""``stanchion status``: the processes and parts of an installation that runs, starts, or has ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from actors.exposition import exposition
from actors.metrics import Labels
from ops.cli import app
from ops.cli.options import NEGATIVE
from ops.commands.status import ProcessStatus, lines, status
from ops.supervision.installation import LOCK_FILE, RUN_FILE

RUN = {
    "base_url": "http://127.0.0.1:1",
    "vision_url": "http://127.0.0.1:2",
    "iso8583": {"host": "127.0.0.1", "port": 3},
    "metrics_url": "http://127.0.0.1:4/metrics",
}
READY: dict[Labels, float] = {("api-0",): 1.0, ("edge",): 0.0, ("postgresql",): 1.0, ("shards",): 1.0}
REQUESTS: dict[Labels, float] = {("get_card", "200"): 3.0}
FIGURES = exposition(
    {
        "supervisor": {"stanchion_ready": READY},
        "api-0": {
            "stanchion_process_id": 71.0,
            "stanchion_process_serving": 1.0,
            "stanchion_process_cpu_seconds": 2.5,
            "stanchion_process_resident_bytes_max": float(100 << 20),
            "stanchion_rest_requests": REQUESTS,
        },
        "edge": {"stanchion_process_serving": 0.0},
        "database": {"stanchion_database_bytes": 5.0},
    }
)


def http(readiness: str) -> httpx2.Client:
    """The metrics port of an installation whose page ``/readyz`` is ``readiness``."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/readyz":
            return httpx2.Response(200 if readiness == "ready\n" else 503, text=readiness)
        return httpx2.Response(200, content=FIGURES)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


@pytest.fixture
def var_dir(tmp_path: Path) -> Path:
    """The folder of an installation whose supervisor is this process."""
    (tmp_path / RUN_FILE).write_text(json.dumps(RUN))
    (tmp_path / LOCK_FILE).write_text(str(os.getpid()))
    return tmp_path


def test_serving_installation_has_processes_and_parts(var_dir: Path) -> None:
    found = status(var_dir, http("ready\n"))
    assert (found.state, found.supervisor_pid) == ("serving", os.getpid())
    assert found.processes[0] == ProcessStatus(
        name="api-0", pid=71, state="ready", cpu_seconds=2.5, memory_bytes_max=100 << 20
    )
    assert found.addresses["ISO 8583"] == "127.0.0.1:3"
    assert found.parts == {"postgresql": "ready", "shards": "ready"}
    text = "\n".join(lines(found))
    assert text.startswith("Stanchion is serving. (")
    assert "api-0    71   ready        2.5          100 MiB\n" in text


def test_parts_that_are_not_ready_have_their_reason(var_dir: Path) -> None:
    found = status(var_dir, http("not ready\nedge: no answer\nray: gcs_server has ended\n"))
    assert found.state == "not_ready"
    assert {each.name: each.state for each in found.processes} == {"api-0": "ready", "edge": "no answer"}
    assert found.parts["ray"] == "gcs_server has ended"


def test_killed_installation_has_stopped(var_dir: Path) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    silent = status(var_dir, httpx2.Client(transport=httpx2.MockTransport(refuse)))
    assert silent.state == "not_answering"
    # No process has this id: it is above the kernel's maximum.
    (var_dir / LOCK_FILE).write_text(str(2**22 + 1))
    killed = status(var_dir, httpx2.Client(transport=httpx2.MockTransport(refuse)))
    assert (killed.state, killed.supervisor_pid) == ("stopped", None)


def test_supervisor_without_addresses_is_starting(tmp_path: Path) -> None:
    assert status(tmp_path).state == "stopped"
    (tmp_path / LOCK_FILE).write_text(str(os.getpid()))
    assert status(tmp_path).state == "starting"


def test_command_exits_with_3_unless_it_serves(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", "--var", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (NEGATIVE, f"Stanchion does not run. ({tmp_path})\n")
    as_json = CliRunner().invoke(app, ["status", "--json", "--var", str(tmp_path)])
    assert json.loads(as_json.stdout)["state"] == "stopped"
