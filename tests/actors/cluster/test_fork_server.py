"""A running fork server and its clients: programs run in copies of it, and without it by themselves."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import fork_client, fork_server
from actors.cluster.fork_server import Request, read_request
from actors.cluster.fork_server_process import FIRST_JOB, ForkServer
from actors.cluster.peers import RayPeers
from actors.cluster.ray_connection import RayConnection
from actors.settings import Settings

OPTION = "--python_worker_command="
REPORT = """
import json, os, sys
print(json.dumps({
    "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgrp(), "arguments": sys.argv[1:],
    "job": os.environ["RAY_JOB_ID"], "preloaded": "actors.cluster.process" in sys.modules,
    "threads": len(os.listdir("/proc/self/task")), "wait": input()
}), flush=True)
"""
RANDOM_REPORT = """
import json, os, random, secrets
from actors.ids import new_id
print(json.dumps({"values": [new_id()[-12:], random.random(), secrets.token_hex(8)]}), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    server.start()
    yield server
    server.stop()
    assert server.pid is None


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(REPORT)
    return path


def run(server: ForkServer, folder: Path, *command: str, job: str = FIRST_JOB) -> tuple[int, dict[str, Any]]:
    """Run the raylet's command for a process; returns the process id of the client and the program's
    report."""
    (changed,) = server.command([OPTION + shlex.join(command)], folder)
    with subprocess.Popen(
        shlex.split(changed.removeprefix(OPTION)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"RAY_JOB_ID": job},
        text=True,
    ) as client:
        output, _ = client.communicate("answer\n", timeout=60)
    return client.pid, json.loads(output)


def test_program_runs_in_a_copy_of_the_server(server: ForkServer, program: Path, tmp_path: Path) -> None:
    arguments = ("--a=1", "--language=PYTHON")
    client, report = run(server, tmp_path, sys.executable, "setup", str(program), *arguments)
    assert report["pid"] != client
    assert report == {
        "pid": report["pid"],
        "parent": server.pid,
        "group": report["pid"],
        "arguments": ["--a=1"],
        "job": FIRST_JOB,
        "preloaded": True,
        "threads": 1,
        "wait": "answer",
    }


def test_copies_draw_different_random_values(server: ForkServer, tmp_path: Path) -> None:
    """A copy that inherited the state of a generator would give its objects the ids of another process."""
    program = tmp_path / "program.py"
    program.write_text(RANDOM_REPORT)
    reports = [run(server, tmp_path, sys.executable, "setup", str(program))[1] for _ in range(2)]
    first, second = (report["values"] for report in reports)
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_program_of_another_job_runs_by_itself(server: ForkServer, program: Path, tmp_path: Path) -> None:
    client, report = run(server, tmp_path, sys.executable, "setup", str(program), job="02000000")
    assert (report["pid"], report["preloaded"], report["job"]) == (client, False, "02000000")


def test_program_runs_by_itself_without_a_server(program: Path, tmp_path: Path) -> None:
    client, report = run(ForkServer(), tmp_path, sys.executable, "setup", str(program), "--a=1")
    assert (report["pid"], report["preloaded"], report["arguments"]) == (client, False, ["--a=1"])


def test_runtime_environment_is_applied_by_its_program(
    server: ForkServer, program: Path, tmp_path: Path
) -> None:
    context = "--serialized-runtime-env-context={}"
    client, report = run(server, tmp_path, sys.executable, str(program), "program", context)
    assert (report["pid"], report["arguments"]) == (client, ["program", context])


def test_client_that_has_gone_gets_no_process(server: ForkServer, program: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(f"\0{server._name}")
        content = {"arguments": [str(program)], "environment": {"RAY_JOB_ID": FIRST_JOB}}
        with (tmp_path / "output").open("w") as output:
            socket.send_fds(client, [b" "], [output.fileno()] * 3)
        client.sendall(json.dumps(content).encode() + b"\n")
        copy = int(client.recv(20))
        client.shutdown(socket.SHUT_WR)
        # The copy closes the connection when it ends.
        assert client.recv(1) == b""
    assert copy != server.pid
    assert (tmp_path / "output").read_text() == ""


def test_broken_request_leaves_the_server_running(server: ForkServer, program: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(f"\0{server._name}")
        client.sendall(b"no request\n")
        assert client.recv(1) == b""
    _, report = run(server, tmp_path, sys.executable, "setup", str(program))
    assert report["parent"] == server.pid


def test_clients_of_other_users_get_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user of the machine can connect to a name outside the file system."""
    monkeypatch.setattr(fork_server, "user_of", lambda _client: os.geteuid() + 1)
    ended: list[Request | None] = []
    lifeline_reader, lifeline = os.pipe()
    name = f"stanchion-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(f"\0{name}")
        listener.listen()
        serving = threading.Thread(target=lambda: ended.append(fork_server.serve(listener, lifeline)))
        serving.start()
        client.connect(f"\0{name}")
        assert client.recv(1) == b""
        os.close(lifeline_reader)
        serving.join()
    os.close(lifeline)
    assert ended == [None]


def test_servers_of_other_users_get_no_request(monkeypatch: pytest.MonkeyPatch, server: ForkServer) -> None:
    monkeypatch.setattr(fork_client, "user_of", lambda _server: os.geteuid() + 1)
    monkeypatch.setattr(socket, "send_fds", None)
    assert not fork_client.delegate(server._name, 60.0, ["program"])


async def test_server_that_has_ended_is_started_again(server: ForkServer, settings: Settings) -> None:
    connection = RayConnection(settings, RayPeers(settings), server)
    before = server.pid or 0
    await connection._revive_fork_server()
    assert server.pid == before
    os.kill(before, signal.SIGKILL)
    process = server._process
    assert process is not None
    process.wait(60)
    await connection._revive_fork_server()
    assert server.pid not in (None, before)


def test_request_arrives_in_parts() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [b" "], [theirs.fileno()])
        theirs.sendall(b'{"arguments": ["a"], ')
        theirs.sendall(b'"environment": {"B": "c"}}\n')
        request = read_request(ours)
        (stream,) = request.streams
        os.close(stream)
    assert request == Request(["a"], {"B": "c"}, [stream])


def test_request_without_an_end_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'{"arguments"')
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ValueError, match="Expecting"):
            read_request(ours)


def test_renewed_server_has_the_same_address(program: Path, tmp_path: Path) -> None:
    server = ForkServer()
    server.start()
    try:
        before = server.pid
        server.renew()
        assert server.pid not in (None, before)
        _, report = run(server, tmp_path, sys.executable, "setup", str(program))
        assert report["parent"] == server.pid
    finally:
        server.stop()


def test_command_without_an_option_for_processes_stays(server: ForkServer, tmp_path: Path) -> None:
    assert server.command(["gcs_server", "--port=1"], tmp_path) == ["gcs_server", "--port=1"]
