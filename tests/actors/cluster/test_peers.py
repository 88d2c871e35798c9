"""Which of the two coordinators is asked. No Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from actors.cluster import peers as module
from actors.cluster.peers import COORDINATOR, STANDBY, RayPeers
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.settings import Settings
from engine.limits import SHARD_COUNT
from tests.support.actors.cluster.fakes import until

TABLE = RoutingTable(7, ("host-1",) * SHARD_COUNT)


class FakePeers(RayPeers):
    """Processes that answer with ``answers``; a process without an answer keeps its callers waiting."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.answers: dict[str, bytes | Exception] = {}
        self.called: list[str] = []

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        self.called.append(role)
        answer = self.answers.get(role)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePeers:
    monkeypatch.setattr(module, "OTHER_SECONDS", 0.01)
    return FakePeers(Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none"))


@pytest.mark.parametrize("leader", [COORDINATOR, STANDBY])
@pytest.mark.parametrize("other", ["waits", "gone"])
async def test_table_comes_from_the_coordinator_that_leads(peers: FakePeers, leader: str, other: str) -> None:
    peers.answers[leader] = msgspec.msgpack.encode(TABLE)
    if other == "gone":
        (name,) = {COORDINATOR, STANDBY} - {leader}
        peers.answers[name] = PeerGoneError(name)
    assert await peers.table(0) == TABLE


async def test_router_asks_again_when_one_coordinator_is_gone_and_the_other_waits(peers: FakePeers) -> None:
    peers.answers[COORDINATOR] = PeerGoneError(COORDINATOR)
    with pytest.raises(PeerGoneError):
        await peers.table(0)


async def test_call_goes_to_the_coordinator_that_leads(peers: FakePeers) -> None:
    peers.answers = {
        COORDINATOR: PeerFailedError("coordinator: NotLeadingError"),
        STANDBY: b"done",
    }
    assert await peers.coordinate("hosts", b"") == b"done"
    assert peers.called == [COORDINATOR, STANDBY]


async def test_failure_of_the_leader_is_reported_and_not_the_refusal_of_the_other(peers: FakePeers) -> None:
    peers.answers = {
        COORDINATOR: PeerFailedError("coordinator: NotLeadingError"),
        STANDBY: PeerFailedError("coordinator-2: ValueError"),
    }
    with pytest.raises(PeerFailedError, match="ValueError"):
        await peers.coordinate("hosts", b"")


async def test_publication_waits_for_the_next_leader(peers: FakePeers) -> None:
    peers.answers = {
        COORDINATOR: PeerGoneError(COORDINATOR),
        STANDBY: PeerFailedError("coordinator-2: NotLeadingError"),
    }
    publishing = asyncio.create_task(peers.publish_programme(b"config"))
    await until(lambda: len(peers.called) >= 2)
    peers.answers[STANDBY] = b""
    await publishing
