"""The port reserved for one of Ray's agents, and the command that starts none. Integration tests cover the
rest of the module."""

from __future__ import annotations

import socket

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
