"""Two coordinators of which one leads, in virtual time: its death, and the loss of its lock. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from actors import essential
from actors.cluster import leadership as module
from actors.cluster.coordinator import Coordinator
from actors.cluster.leadership import Leadership, LostLeadershipError, NotLeadingError
from actors.cluster.liveness import HOST_PROBES
from actors.cluster.peers import COORDINATOR, STANDBY
from actors.peers import PeerGoneError, RoutingTable
from engine.limits import LEADER_CHECK_SECONDS, SHARD_COUNT
from tests.support.actors.cluster.hosts import FakeHosts
from tests.support.actors.shards.virtual_time import run

ANSWERED_SECONDS_MAX = 1.5
"""From the death of the leader and of a host until the host's cards have an owner."""
_table = msgspec.msgpack.Decoder(RoutingTable).decode


class Server:
    """The database server's lock."""

    def __init__(self) -> None:
        self.holder: FakeLock | None = None
        self.changed = asyncio.Condition()

    async def forget(self) -> None:
        """The server restarts."""
        async with self.changed:
            self.holder = None
            self.changed.notify_all()


class FakeLock:
    """A session of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def held(self) -> bool:
        return self._server.holder is self

    async def try_acquire(self) -> bool | None:
        if self._server.holder is None:
            self._server.holder = self
        return self.held

    async def acquire(self) -> None:
        async with self._server.changed:
            await self._server.changed.wait_for(lambda: self._server.holder in (None, self))
            self._server.holder = self

    def close(self) -> None:
        if self.held:
            self._server.holder = None


class Cluster:
    """Hosts on ``nodes``, and both coordinators. The journal's owners are those of the last table."""

    def __init__(self, nodes: tuple[str, ...] = ("n1", "n2"), wanted: int = 1, reserve: int = 0) -> None:
        self.hosts = FakeHosts(*nodes)
        self.wanted, self.reserve = wanted, reserve
        self.server = Server()
        self.owners: dict[int, str | None] = dict.fromkeys(range(SHARD_COUNT))
        self.both = {name: self._leadership(name) for name in (COORDINATOR, STANDBY)}
        self.dead: set[str] = set()

    def _leadership(self, name: str) -> Leadership:
        coordinator = Coordinator(
            self.hosts, self._read_owners, self.wanted, reserve=self.reserve, probes=HOST_PROBES
        )
        return Leadership(coordinator, FakeLock(self.server), self, name)

    async def _read_owners(self) -> dict[int, str | None]:
        return dict(self.owners)

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        if role in self.dead:
            raise PeerGoneError(role)
        return await self.both[role].call(method, payload)

    async def started(self) -> None:
        """Start both, and wait until the standby knows the hosts."""
        for each in self.both.values():
            await each.start()
        await self.table(COORDINATOR)
        await asyncio.sleep(module.STANDBY_DELAY_SECONDS + 2 * LEADER_CHECK_SECONDS)

    async def table(self, name: str, after: int = 0) -> RoutingTable:
        found = _table(await self.both[name].call("table", msgspec.msgpack.encode(after)))
        self.owners = dict(enumerate(found.owners))
        return found

    async def kill(self, name: str) -> None:
        """The process ends: its work stops where it is, and its sessions end."""
        self.dead.add(name)
        leadership = self.both[name]
        await leadership._end_tasks()
        leadership._coordinator._leading = False
        await leadership._coordinator.stop()
        async with self.server.changed:
            leadership._lock.close()
            self.server.changed.notify_all()


def virtually(
    scenario: Callable[[Cluster], Coroutine[Any, Any, None]], make: Callable[[], Cluster] = Cluster
) -> None:
    """Run ``scenario`` with a new cluster in virtual time."""

    async def lived() -> None:
        cluster = make()
        await cluster.started()
        await scenario(cluster)
        for name in (STANDBY, COORDINATOR):
            if name not in cluster.dead:
                await cluster.both[name].stop()

    run(lived())


async def after_death_with_leader(cluster: Cluster, death: str) -> RoutingTable:
    """The table once host-1 and the leader have died and every shard has another owner, which is soon."""
    began = asyncio.get_running_loop().time()
    if death == "ended":
        cluster.hosts.dead["host-1"].set()
    else:
        cluster.hosts.frozen.add("host-1")
    await cluster.kill(COORDINATOR)
    found = await cluster.table(STANDBY)
    while {None, "host-1"} & set(found.owners):
        found = await cluster.table(STANDBY, found.version)
    assert asyncio.get_running_loop().time() - began <= ANSWERED_SECONDS_MAX
    return found


@pytest.mark.parametrize("death", ["ended", "silent"])
def test_cards_of_a_host_that_dies_with_the_leader_have_an_owner_soon(death: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        found = await after_death_with_leader(cluster, death)
        assert len(found.owners) == SHARD_COUNT

    virtually(scenario)


@pytest.mark.parametrize("death", ["ended", "silent"])
def test_reserve_takes_over_when_the_serving_host_dies_with_the_leader(death: str) -> None:
    """No journal row names the reserve; the standby knows it from the leader."""

    async def scenario(cluster: Cluster) -> None:
        found = await after_death_with_leader(cluster, death)
        assert set(found.owners) == {"host-2"}
        assert "host-2" not in cluster.hosts.ended

    virtually(scenario, lambda: Cluster(("n1",), wanted=2, reserve=1))


def test_leader_that_comes_back_waits_for_the_one_that_leads_now() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.kill(COORDINATOR)
        await cluster.table(STANDBY)
        restarted = cluster.both[COORDINATOR] = cluster._leadership(COORDINATOR)
        cluster.dead.clear()
        await restarted.start()
        with pytest.raises(NotLeadingError):
            await restarted.call("hosts", b"")
        await cluster.kill(STANDBY)
        assert set((await cluster.table(COORDINATOR)).owners) == {"host-1", "host-2"}
        assert cluster.hosts.ended == [], "hosts live through changes of the leader"

    virtually(scenario)


def test_waiting_coordinator_answers_only_when_it_leads() -> None:
    async def scenario(cluster: Cluster) -> None:
        standby = cluster.both[STANDBY]
        with pytest.raises(NotLeadingError):
            await standby.call("replace", b"host-1")
        with pytest.raises(NotLeadingError):
            await cluster.table(STANDBY)
        asked = asyncio.create_task(cluster.table(STANDBY))
        await asyncio.sleep(0)
        await cluster.kill(COORDINATOR)
        assert set((await asked).owners) == {"host-1", "host-2"}
        assert standby.figures()["stanchion_coordinator_leads"] == 1.0

    virtually(scenario)


def test_leader_whose_lock_the_other_has_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[BaseException] = []
    monkeypatch.setattr(essential, "end_process", lambda _name, failure: ended.append(failure))

    async def scenario(cluster: Cluster) -> None:
        standby = cluster.both[STANDBY]
        async with cluster.server.changed:
            cluster.server.holder = standby._lock  # type: ignore[assignment]
            cluster.server.changed.notify_all()
        await asyncio.sleep(2 * LEADER_CHECK_SECONDS)
        assert [type(failure) for failure in ended] == [LostLeadershipError]
        assert (await standby.call("hosts", b"")) != b""
        await cluster.kill(COORDINATOR)

    virtually(scenario)


def test_leader_that_stops_leaves_no_coordinator_that_starts_hosts_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.both[COORDINATOR].stop()
        assert sorted(cluster.hosts.stopped) == ["host-1", "host-2"]
        await asyncio.sleep(60)
        assert not await cluster.hosts.living()
        assert cluster.both[STANDBY].figures() == {"stanchion_coordinator_leads": 0.0}

    virtually(scenario)
