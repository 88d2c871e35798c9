"""A coordinator that keeps a reserve: a host without shards that takes over when the serving host ends. No
Ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from actors.cluster import coordinator as module
from actors.cluster import ownership
from actors.cluster.coordinator import Coordinator
from actors.peers import RoutingTable
from engine.limits import SHARD_COUNT
from tests.support.actors.cluster.hosts import SHORT_PROBES, FakeHosts, no_owners, settled, table

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "NODES_SECONDS", 0.01)
    monkeypatch.setattr(ownership, "RETRY_SECONDS", 0.01)


@pytest.fixture
def hosts() -> FakeHosts:
    return FakeHosts()


@pytest.fixture
async def coordinator(hosts: FakeHosts) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(hosts, no_owners, wanted=2, reserve=1, probes=SHORT_PROBES)
    await coordinator.start()
    yield coordinator
    await coordinator.stop()


def owned_by(name: str, current: RoutingTable) -> bool:
    return set(current.owners) == {name}


async def test_one_host_owns_all_shards_and_the_other_none(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    assert owned_by("host-1", await table(coordinator))
    assert set(hosts.placed) == {"host-1", "host-2"}


@pytest.mark.parametrize("loss", ["dies", "freezes"])
async def test_reserve_takes_over_and_the_next_host_becomes_the_reserve(
    coordinator: Coordinator, hosts: FakeHosts, loss: str
) -> None:
    if loss == "dies":
        hosts.dead["host-1"].set()
    else:
        hosts.frozen.add("host-1")
    await settled(coordinator, lambda each: owned_by("host-2", each))
    hosts.dead["host-2"].set()
    current = await settled(coordinator, lambda each: owned_by("host-3", each))
    assert sum(map(len, (hosts.owned[name] for name in ("host-3", "host-4") if name in hosts.owned))) == 256
    assert None not in current.owners
    assert coordinator.figures()["stanchion_takeovers"] == 2


async def test_routing_table_names_the_reserve(coordinator: Coordinator, hosts: FakeHosts) -> None:
    assert (await table(coordinator)).reserves == ("host-2",)
    hosts.dead["host-1"].set()
    current = await settled(coordinator, lambda each: each.reserves == ("host-3",))
    assert owned_by("host-2", current)


async def test_next_host_starts_after_a_pause(coordinator: Coordinator, hosts: FakeHosts) -> None:
    began = asyncio.get_running_loop().time()
    hosts.dead["host-1"].set()
    await settled(coordinator, lambda each: owned_by("host-2", each))
    assert "host-3" not in hosts.placed
    await settled(coordinator, lambda _: "host-3" in hosts.placed)
    assert asyncio.get_running_loop().time() - began >= module.REFILL_PAUSE_SECONDS


async def test_death_of_the_reserve_moves_no_shard(coordinator: Coordinator, hosts: FakeHosts) -> None:
    before = await table(coordinator)
    hosts.dead["host-2"].set()
    await settled(coordinator, lambda _: "host-3" in hosts.placed)
    assert (await table(coordinator)).owners == before.owners


async def test_reserve_serves_if_the_serving_host_cannot_take(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    """The first of two new hosts is asked first; the other one takes what it refuses."""
    hosts.refusals = 1
    for name in ("host-1", "host-2"):
        hosts.dead[name].set()
    current = await settled(coordinator, lambda each: not {None, "host-1", "host-2"} & set(each.owners))
    assert len(set(current.owners)) == 1


async def test_next_coordinator_gathers_the_shards_of_two_hosts(hosts: FakeHosts) -> None:
    """As after an upgrade, or after the setting was changed."""
    first = Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES)
    await first.start()
    shared = await table(first)
    assert Counter(shared.owners) == {"host-1": 128, "host-2": 128}

    async def owners() -> dict[int, str | None]:
        return dict(enumerate(shared.owners))

    second = Coordinator(hosts, owners, wanted=2, reserve=1, probes=SHORT_PROBES)
    await second.start()
    await settled(second, lambda each: owned_by("host-1", each))
    assert hosts.owned["host-2"] == set()
    assert second.figures()["stanchion_takeovers"] == 0
    await second.stop()


async def test_successor_of_the_serving_host_serves(coordinator: Coordinator) -> None:
    assert await coordinator.call("replace", b"host-1") == b"host-3"
    assert owned_by("host-3", await table(coordinator))


async def test_successor_of_the_reserve_is_the_reserve(coordinator: Coordinator) -> None:
    assert await coordinator.call("replace", b"host-2") == b"host-3"
    assert owned_by("host-1", await table(coordinator))


async def test_each_node_has_a_serving_host_and_a_reserve() -> None:
    hosts = FakeHosts("n1", "n2")
    coordinator = Coordinator(hosts, no_owners, wanted=2, reserve=1, probes=SHORT_PROBES)
    await coordinator.start()
    before = Counter((await table(coordinator)).owners)
    assert sorted(before.values()) == [128, 128]
    assert {hosts.placed[owner or ""] for owner in before} == {"n1", "n2"}
    lost = next(owner for owner in before if owner is not None and hosts.placed[owner] == "n2")
    hosts.dead[lost].set()
    after = await settled(
        coordinator,
        lambda each: lost not in each.owners and sorted(Counter(each.owners).values()) == [128, 128],
    )
    assert {hosts.placed[owner or ""] for owner in after.owners} == {"n1", "n2"}
    await coordinator.stop()


async def test_drained_node_hands_over_to_serving_hosts() -> None:
    hosts = FakeHosts("n1", "n2")
    coordinator = Coordinator(hosts, no_owners, wanted=2, reserve=1, probes=SHORT_PROBES)
    await coordinator.start()
    serving = {owner for owner in (await table(coordinator)).owners if hosts.placed[owner or ""] == "n1"}
    await coordinator.call("drain", b"n2")
    assert set((await table(coordinator)).owners) == serving
    await coordinator.stop()


async def test_at_least_one_host_serves(hosts: FakeHosts) -> None:
    coordinator = Coordinator(hosts, no_owners, wanted=2, reserve=5, probes=SHORT_PROBES)
    await coordinator.start()
    assert len((await table(coordinator)).owners) == SHARD_COUNT
    assert owned_by("host-1", await table(coordinator))
    await coordinator.stop()
