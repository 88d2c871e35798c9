"""Calls over Unix sockets: replies, failures, lost connections, and other users; and their use by
``RayPeers``."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import unix_rpc
from actors.cluster.peers import RayPeers
from actors.cluster.unix_rpc import UnixConnection, UnixServer, connect
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings


class Callee:
    """Handles calls: ``slow`` returns after ``proceed`` is set; ``broken`` and ``cancelled`` fail."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()
        self.calls: asyncio.Queue[str] = asyncio.Queue()

    async def answer(self, method: str, payload: bytes) -> bytes:
        self.calls.put_nowait(method)
        if method == "slow":
            await self.proceed.wait()
        if method == "broken":
            raise LookupError("4560000000000008")
        if method == "cancelled":
            raise asyncio.CancelledError
        return method.encode() + b":" + payload


@pytest.fixture
async def callee() -> Callee:
    return Callee()


@pytest.fixture
async def server(callee: Callee) -> AsyncIterator[UnixServer]:
    server = UnixServer(callee.answer)
    await server.open()
    yield server
    await server.close()


def ignore(_connection: UnixConnection) -> None:
    """Used as ``on_lost``."""


async def connected(server: UnixServer, lost: list[UnixConnection] | None = None) -> UnixConnection:
    connection = await connect("host-1", server.name, ignore if lost is None else lost.append)
    assert connection is not None
    return connection


async def test_call_returns_the_reply(server: UnixServer) -> None:
    connection = await connected(server)
    assert await connection.call("execute", b"\x00batch") == b"execute:\x00batch"
    assert await connection.call("execute", b"") == b"execute:"
    connection.close()


async def test_large_and_concurrent_calls_share_a_connection(server: UnixServer) -> None:
    connection = await connected(server)
    payloads = [os.urandom(size) for size in (1, 300_000, 5, 1_000_000, 70_000)]
    replies = await asyncio.gather(*(connection.call("execute", payload) for payload in payloads))
    assert replies == [b"execute:" + payload for payload in payloads]
    connection.close()


async def test_slow_call_does_not_delay_another(server: UnixServer, callee: Callee) -> None:
    connection = await connected(server)
    slow = asyncio.create_task(connection.call("slow", b"1"))
    assert await connection.call("quick", b"2") == b"quick:2"
    assert not slow.done()
    callee.proceed.set()
    assert await slow == b"slow:1"
    connection.close()


async def test_cancelled_call_does_not_affect_another(server: UnixServer, callee: Callee) -> None:
    connection = await connected(server)
    cancelled = asyncio.create_task(connection.call("slow", b""))
    other = asyncio.create_task(connection.call("slow", b"mine"))
    assert [await callee.calls.get() for _ in range(2)] == ["slow", "slow"]
    cancelled.cancel()
    await asyncio.wait([cancelled])
    callee.proceed.set()
    assert await other == b"slow:mine"
    connection.close()


@pytest.mark.parametrize(("method", "failure"), [("broken", "LookupError"), ("cancelled", "CancelledError")])
async def test_failed_call_names_the_error_type_without_its_text(
    server: UnixServer, method: str, failure: str
) -> None:
    connection = await connected(server)
    with pytest.raises(PeerFailedError) as raised:
        await connection.call(method, b"")
    assert str(raised.value) == f"host-1: {failure}"
    assert await connection.call("execute", b"") == b"execute:", "the connection stays open"
    connection.close()


async def test_lost_connection_fails_all_open_calls(server: UnixServer, callee: Callee) -> None:
    lost: list[UnixConnection] = []
    connection = await connected(server, lost)
    waiting = [asyncio.create_task(connection.call("slow", b"")) for _ in range(3)]
    assert [await callee.calls.get() for _ in range(3)] == ["slow"] * 3
    connection.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [PeerGoneError] * 3
    assert lost == [connection]
    with pytest.raises(PeerGoneError):
        await connection.call("execute", b"")


async def test_closed_server_cannot_be_reached(callee: Callee) -> None:
    server = UnixServer(callee.answer)
    await server.open()
    await server.close()
    assert await connect("host-1", server.name, ignore) is None
    assert await connect("host-1", "", ignore) is None


async def test_caller_refuses_a_server_of_another_user(
    server: UnixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert await connect("host-1", server.name, ignore) is None


async def test_server_refuses_a_caller_of_another_user(
    server: UnixServer, callee: Callee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller here does not check the server's user."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, f"\0{server.name}")
        await loop.sock_sendall(stranger, unix_rpc._HEADER.pack(7, 0, 7) + b"execute")
        async with asyncio.timeout(60):
            try:
                assert await loop.sock_recv(stranger, 100) == b""
            except ConnectionResetError:
                pass
    assert callee.calls.empty()


# --- RayPeers ---------------------------------------------------------------------------------------------


class PeersWithFakeRay(RayPeers):
    """Ray is a table of socket names; ``through_ray`` lists the methods called through it."""

    def __init__(self, settings: Settings, sockets: dict[str, str]) -> None:
        super().__init__(settings)
        self.sockets = sockets
        self.through_ray: list[str] = []

    async def _remote(self, role: str, method: str, *arguments: Any) -> Any:
        self.through_ray.append(method)
        await asyncio.sleep(0)
        if role not in self.sockets:
            raise PeerGoneError(role)
        return self.sockets[role] if method == "door" else b"through Ray"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(var_dir=tmp_path)


async def test_socket_name_is_looked_up_once(settings: Settings, server: UnixServer) -> None:
    peers = PeersWithFakeRay(settings, {"network": server.name})
    replies = await asyncio.gather(*(peers.call("network", "accept", b"%d" % n) for n in range(5)))
    await peers.ping("network")
    assert replies == [b"accept:%d" % n for n in range(5)]
    assert peers.through_ray == ["door"]
    peers.kill("network")


async def test_calls_without_a_reachable_socket_go_through_ray(settings: Settings) -> None:
    peers = PeersWithFakeRay(settings, {"far": "stanchion-on-another-machine", "none": ""})
    for role in ("far", "far", "none"):
        assert await peers.call(role, "accept", b"") == b"through Ray"
    assert peers.through_ray == ["door", "call", "call", "door", "call"]


async def test_restarted_process_is_reached_at_its_new_socket(settings: Settings, callee: Callee) -> None:
    first = UnixServer(callee.answer)
    await first.open()
    peers = PeersWithFakeRay(settings, {"network": first.name})
    waiting = asyncio.create_task(peers.call("network", "slow", b""))
    assert await callee.calls.get() == "slow"
    await first.close()
    peers._connections["network"].close()  # type: ignore[union-attr]  # as the kernel does when the process ends
    with pytest.raises(PeerGoneError):
        await waiting
    second = UnixServer(callee.answer)
    await second.open()
    peers.sockets["network"] = second.name
    assert await peers.call("network", "accept", b"2") == b"accept:2"
    assert peers.through_ray == ["door", "door"]
    await second.close()
    peers.kill("network")


async def test_failed_look_up_is_not_cached(settings: Settings) -> None:
    peers = PeersWithFakeRay(settings, {})
    for _ in range(2):
        with pytest.raises(PeerGoneError):
            await peers.call("host-1", "execute", b"")
    assert peers.through_ray == ["door", "door"]
