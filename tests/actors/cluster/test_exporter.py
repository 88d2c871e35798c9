"""The pages of the metrics port while processes are gone or frozen. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.cluster import exporter as module
from actors.cluster.exporter import Exporter
from actors.metrics import Figures
from actors.peers import PeerGoneError
from ops.embedded.ports import free_ports


class Peers:
    """Processes, some of which are gone or frozen."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.frozen: set[str] = set()

    async def coordinate(self, method: str, _payload: bytes) -> bytes:
        assert method == "hosts"
        await self._reach("coordinator")
        return msgspec.msgpack.encode(["host-1"])

    async def ask(self, name: str, method: str) -> Figures:
        assert method == "figures"
        await self._reach(name)
        return {"stanchion_process_serving": 1.0}

    async def ping(self, name: str) -> None:
        await self._reach(name)

    async def _reach(self, name: str) -> None:
        if name in self.away:
            raise PeerGoneError(name)
        if name in self.frozen:
            await asyncio.Event().wait()


class Pages:
    """A client of the metrics port."""

    def __init__(self, session: aiohttp.ClientSession, base: str, peers: Peers) -> None:
        self._session = session
        self._base = base
        self.peers = peers

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._base + path) as answer:
            return answer.status, await answer.text()

    async def series(self, name: str) -> dict[str, str]:
        lines = (await self.get("/metrics"))[1].splitlines()
        found = (line.rpartition(" ") for line in lines if line.startswith(f"{name}{{"))
        return {labels: value for labels, _, value in found}


@pytest.fixture
async def pages(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pages]:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(module, "READY_SECONDS", 0.2)

    async def no_sizes(*_arguments: Any) -> Figures:
        return {}

    monkeypatch.setattr(module, "read_sizes", no_sizes)
    peers = Peers()
    names = ("coordinator", "edge")

    def checks() -> dict[str, Any]:
        return {name: lambda name=name: peers.ping(name) for name in names}

    exporter = Exporter(peers, lambda: {name: name for name in names}, checks, "")  # type: ignore[arg-type]
    (port,) = free_ports(1)
    await exporter.start("127.0.0.1", port)
    async with aiohttp.ClientSession() as session:
        yield Pages(session, f"http://127.0.0.1:{port}", peers)
    await exporter.stop()


async def test_installation_is_ready_when_all_parts_answer(pages: Pages) -> None:
    assert await pages.get("/readyz") == (200, "ready\n")


async def test_readiness_names_each_part_that_is_not_ready(pages: Pages) -> None:
    pages.peers.frozen.add("edge")
    assert await pages.get("/readyz") == (503, "not ready\nedge: no answer\n")
    pages.peers.away.add("coordinator")
    assert await pages.get("/readyz") == (503, "not ready\ncoordinator: not running\nedge: no answer\n")
    assert (await pages.get("/healthz"))[0] == 200, "the supervisor itself is healthy"


async def test_liveness_needs_an_answer_of_rays_head_only(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RAY", "coordinator")
    pages.peers.away.add("edge")
    assert await pages.get("/livez") == (200, "ready\n")
    pages.peers.away.add("coordinator")
    assert await pages.get("/livez") == (503, "not ready\ncoordinator: not running\n")


async def test_series_of_a_frozen_process_are_zero(pages: Pages) -> None:
    pages.peers.frozen.add("edge")
    assert await pages.series("stanchion_process_serving") == {
        'stanchion_process_serving{process="coordinator"}': "1.0",
        'stanchion_process_serving{process="edge"}': "0.0",
        'stanchion_process_serving{process="host-1"}': "1.0",
    }
    assert await pages.series("stanchion_ready") == {
        'stanchion_ready{part="coordinator",process="supervisor"}': "1.0",
        'stanchion_ready{part="edge",process="supervisor"}': "0.0",
    }


async def test_hosts_are_asked_while_the_coordinator_is_away(pages: Pages) -> None:
    await pages.get("/metrics")
    pages.peers.away.add("coordinator")
    serving = await pages.series("stanchion_process_serving")
    assert serving['stanchion_process_serving{process="host-1"}'] == "1.0"
    assert serving['stanchion_process_serving{process="coordinator"}'] == "0.0"
