"""The port reserved for one of Ray's agents, and the command that starts none. Integration tests cover the
rest of the module."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess

import pytest

from actors.cluster.local_node import AGENTS, NO_AGENT, _reserved_port, without_agents


def test_reserved_port_is_only_available_with_address_reuse() -> None:
    reserved = _reserved_port()
    assert reserved is not None
    with reserved, socket.socket() as other, socket.socket() as agent:
        with pytest.raises(OSError, match="in use"):
            other.bind(reserved.getsockname())
        agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        agent.bind(reserved.getsockname())
        agent.listen()
        with socket.create_connection(reserved.getsockname(), 5) as caller:
            agent.accept()[0].close()
            assert caller.recv(1) == b""


def test_command_of_a_raylet_starts_no_agents() -> None:
    given = ["raylet", "--num=2", "--dashboard_agent_command=python a.py", "--runtime_env_agent_command=b c"]
    expected = [*given[:2], *(option + NO_AGENT for option in AGENTS)]
    assert without_agents(given) == expected


def test_the_process_in_place_of_an_agent_ignores_a_ctrl_c_and_ends_with_its_pipe() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(shlex.split(NO_AGENT), stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"started\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"started\n"
        os.killpg(process.pid, signal.SIGINT)
        process.stdin.write(b"alive\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"alive\n"
        process.stdin.close()
        assert process.wait(60) == 0
