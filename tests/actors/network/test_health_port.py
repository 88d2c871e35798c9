"""The health port of an edge, on sockets: links, the API of the node, and callers that do not behave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from actors.network import health_port as module
from actors.network.health_port import HealthPort
from actors.network.links.status import LinkStatus

LISTENING = LinkStatus(
    name="main",
    direction="listen",
    mode="test",
    address="127.0.0.1:8583",
    tls=False,
    state="up",
    connections=0,
    connections_wanted=None,
    signed_on=0,
    sign_on="none",
    in_flight=0,
    per_minute={},
    answers={},
    refused={},
    bytes_received=0,
    last_error=None,
    last_error_ms=0,
)


class Node:
    """A health port over these links, and an API that answers with ``status``; without one it hangs."""

    def __init__(self) -> None:
        self.links = [LISTENING]
        self.status: str | None = "200 OK"
        self.health: HealthPort

    async def api(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /healthz ")
        if self.status is not None:
            writer.write(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        with suppress(OSError):
            await reader.read()
        writer.close()

    async def ask(self, request: bytes = b"GET /readyz HTTP/1.1\r\n\r\n") -> tuple[str, str]:
        """Status and body; empty if the connection closes without an answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.health.port)
        writer.write(request)
        answer = ""
        with suppress(ConnectionResetError):
            answer = (await reader.read()).decode()
        writer.close()
        return answer[9:12], answer.partition("\r\n\r\n")[2]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    api = await asyncio.start_server(node.api, "127.0.0.1", 0)
    address: Any = api.sockets[0].getsockname()
    node.health = HealthPort(("127.0.0.1", 0), lambda: node.links, address, api_tls=False)
    await node.health.start()
    yield node
    await node.health.stop()
    await node.health.stop()
    api.close()


async def test_node_is_ready_while_edge_and_api_serve(node: Node) -> None:
    assert await node.ask() == ("200", "ready\n")


@pytest.mark.parametrize(
    ("change", "ready"),
    [
        ({"state": "down"}, False),
        ({"state": "signed_off"}, True),
        ({"direction": "connect", "state": "down"}, True),
    ],
    ids=["down", "signed off", "connects"],
)
async def test_node_is_not_ready_while_a_link_does_not_listen(
    node: Node, change: dict[str, str], ready: bool
) -> None:
    node.links = [LISTENING, msgspec.structs.replace(LISTENING, name="other", **change)]
    answer = await node.ask()
    assert answer == (("200", "ready\n") if ready else ("503", "link other does not listen\n"))


@pytest.mark.parametrize("status", ["503 Service Unavailable", None], ids=["fails", "hangs"])
async def test_node_is_not_ready_while_its_api_does_not_answer(
    node: Node, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.status = status
    monkeypatch.setattr(module, "HEALTH_SECONDS", 4.0)
    assert await node.ask() == ("503", "the API does not answer\n")


async def test_stopped_edge_does_not_answer(node: Node) -> None:
    port = node.health.port
    await node.health.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_successor_listens_on_the_same_port(node: Node) -> None:
    successor = HealthPort(("127.0.0.1", node.health.port), lambda: node.links, ("", 0), api_tls=False)
    await successor.start()
    await node.health.stop()
    node.health = successor
    assert await node.ask() == ("503", "the API does not answer\n")


async def test_other_requests_and_silent_callers_get_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEALTH_SECONDS", 1.0)
    assert (await node.ask(b"GET / HTTP/1.1\r\n\r\n"))[0] == "404"
    assert await node.ask(b"GET /readyz") == ("", ""), "the connection is closed"
    assert await node.ask(b"x" * 100_000) == ("", "")
    assert (await node.ask())[0] == "200"
