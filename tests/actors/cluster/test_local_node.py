"""The port reserved for one of Ray's agents. Integration tests cover the rest of the module."""

from __future__ import annotations

import socket

import pytest

from actors.cluster.local_node import _reserved_port


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
