"""The coordinator with hosts that die, freeze, refuse and are replaced. No Ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest

from actors.cluster import coordinator as module
from actors.cluster import ownership
from actors.cluster.coordinator import Coordinator
from actors.peers import PeerGoneError, RoutingTable
from engine.limits import MOVE_SECONDS, SHARD_COUNT
from tests.support.actors.cluster.fakes import until
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
    coordinator = Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES)
    await coordinator.start()
    yield coordinator
    await coordinator.stop()


def loads(current: RoutingTable) -> list[int]:
    return sorted(Counter(current.owners).values())


async def test_shards_are_distributed_evenly(coordinator: Coordinator, hosts: FakeHosts) -> None:
    current = await table(coordinator)
    assert loads(current) == [128, 128]
    assert all(shard in hosts.owned[owner or ""] for shard, owner in enumerate(current.owners))


@pytest.mark.parametrize("loss", ["dies", "freezes"])
async def test_survivors_take_over_and_a_new_host_gets_its_share(
    coordinator: Coordinator, hosts: FakeHosts, loss: str
) -> None:
    if loss == "dies":
        hosts.dead["host-1"].set()
    else:
        hosts.frozen.add("host-1")
    taken_over = await settled(coordinator, lambda each: "host-1" not in each.owners)
    assert None not in taken_over.owners
    assert "host-1" in hosts.ended
    current = await settled(coordinator, lambda each: loads(each) == [128, 128])
    assert set(current.owners) == {"host-2", "host-3"}
    assert coordinator.figures()["stanchion_takeovers"] == 1


async def test_new_hosts_replace_all_hosts_that_die_at_once(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    for name in ("host-1", "host-2"):
        hosts.dead[name].set()
    current = await settled(coordinator, lambda each: set(each.owners) == {"host-3", "host-4"})
    assert loads(current) == [128, 128]


async def test_refused_take_is_retried(coordinator: Coordinator, hosts: FakeHosts) -> None:
    hosts.refusals = 3
    hosts.dead["host-1"].set()
    current = await settled(coordinator, lambda each: "host-1" not in each.owners and None not in each.owners)
    assert set(current.owners) <= {"host-2", "host-3"}


@pytest.mark.parametrize("method", ["take", "release"])
async def test_host_that_hangs_in_a_move_does_not_block_the_takeover_of_another(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(ownership, "MOVE_SECONDS", 0.02)
    hosts.hangs = (method, "host-3" if method == "take" else "host-1")
    replacing = asyncio.create_task(coordinator.call("replace", b"host-1"))
    hosts.dead["host-2"].set()
    await settled(coordinator, lambda each: not {None, "host-2"} & set(each.owners))
    hosts.hangs = ("", "")
    await replacing


async def test_table_versions_increase(coordinator: Coordinator, hosts: FakeHosts) -> None:
    first = await table(coordinator)
    hosts.dead["host-1"].set()
    later = await table(coordinator, first.version)
    assert later.version > first.version


async def test_new_coordinator_adopts_the_living_owners_and_ends_other_hosts(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    current = await table(coordinator)

    async def owners() -> dict[int, str | None]:
        return dict(enumerate(current.owners))

    spare = await hosts.create("n1")
    second = Coordinator(hosts, owners, wanted=2, probes=SHORT_PROBES)
    await second.start()
    found = await table(second)
    assert set(found.owners) == {"host-1", "host-2"}
    assert found.version > 0
    await until(lambda: spare in hosts.ended)
    await second.stop()


async def test_new_coordinator_gives_shards_of_a_dead_owner_away_before_it_creates_a_host(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = await table(coordinator)

    async def owners() -> dict[int, str | None]:
        return dict(enumerate(current.owners))

    async def never(_node: str) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(hosts, "create", never)
    hosts.dead["host-1"].set()
    second = Coordinator(hosts, owners, wanted=2, probes=SHORT_PROBES)
    await second.start()
    assert set((await table(second)).owners) == {"host-2"}
    await second.stop()


# --- waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["take", "release"])
async def test_move_between_hosts_that_hang_does_not_delay_a_takeover(
    coordinator: Coordinator, hosts: FakeHosts, method: str
) -> None:
    """Both hosts of the move answer pings. The move waits for ``MOVE_SECONDS``, the takeover does not."""
    hosts.hangs = (method, "host-3" if method == "take" else "host-1")
    replacing = asyncio.create_task(coordinator.call("replace", b"host-1"))
    await until(lambda: bool(coordinator._ownership._moving))
    moving = set(coordinator._ownership._moving)
    began = asyncio.get_running_loop().time()
    hosts.dead["host-2"].set()
    await settled(coordinator, lambda each: "host-2" not in each.owners)
    assert not replacing.done()
    assert moving <= coordinator._ownership._moving, "the move is still under way"
    assert asyncio.get_running_loop().time() - began < MOVE_SECONDS
    replacing.cancel()
    await asyncio.gather(replacing, return_exceptions=True)


async def test_move_ends_at_once_when_its_giver_is_lost(coordinator: Coordinator, hosts: FakeHosts) -> None:
    hosts.hangs = ("release", "host-1")
    replacing = asyncio.create_task(coordinator.call("replace", b"host-1"))
    await until(lambda: bool(coordinator._ownership._moving))
    hosts.frozen.add("host-1")
    assert await replacing == b""
    current = await settled(coordinator, lambda each: "host-1" not in each.owners)
    assert None not in current.owners


async def test_take_ends_at_once_when_its_taker_is_lost(coordinator: Coordinator, hosts: FakeHosts) -> None:
    hosts.hangs = ("take", "host-2")
    hosts.dead["host-1"].set()
    await until(lambda: bool(coordinator._ownership._moving))
    hosts.frozen.add("host-2")
    current = await settled(coordinator, lambda each: not {None, "host-1", "host-2"} & set(each.owners))
    assert len(current.owners) == SHARD_COUNT


async def test_programme_is_announced_to_all_living_hosts(coordinator: Coordinator, hosts: FakeHosts) -> None:
    await coordinator.call("publish_programme", b"config")
    assert sorted(hosts.calls) == [("host-1", b"config"), ("host-2", b"config")]


async def test_dead_host_does_not_prevent_the_announcement_to_others(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    hosts.dead["host-1"].set()
    await coordinator.call("publish_programme", b"config")
    assert ("host-2", b"config") in hosts.calls


@pytest.mark.parametrize("loss", ["dies", "freezes"])
async def test_programme_change_waits_until_a_silent_host_has_lost_its_shards(
    coordinator: Coordinator, hosts: FakeHosts, loss: str
) -> None:
    """Until then the host can commit decisions with the old version."""
    hosts.refusals = 50
    if loss == "dies":
        hosts.dead["host-1"].set()
    else:
        hosts.frozen.add("host-1")
    await coordinator.call("publish_programme", b"config")
    assert not hosts.refusals
    assert {None, "host-1"}.isdisjoint((await table(coordinator)).owners)


async def test_programme_change_waits_for_a_takeover_that_has_begun(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    hosts.refusals = 50
    hosts.dead["host-1"].set()
    await until(lambda: "host-1" not in coordinator._watch)
    await coordinator.call("publish_programme", b"config")
    assert {None, "host-1"}.isdisjoint((await table(coordinator)).owners)


async def test_programme_change_fails_while_shards_cannot_be_taken(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    hosts.refusals = 10**9
    hosts.frozen.add("host-1")
    with pytest.raises(TimeoutError):
        await coordinator.call("publish_programme", b"config")


async def test_stop_stops_and_ends_every_host(hosts: FakeHosts) -> None:
    coordinator = Coordinator(hosts, no_owners, wanted=3, probes=SHORT_PROBES)
    await coordinator.start()
    await coordinator.stop()
    await coordinator.stop()
    assert sorted(hosts.stopped) == sorted(hosts.ended) == ["host-1", "host-2", "host-3"]


async def test_host_stopped_by_the_kernel_is_replaced_before_its_pings_time_out(hosts: FakeHosts) -> None:
    coordinator = Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES._replace(silence_seconds=60.0))
    await coordinator.start()
    hosts.frozen.add("host-1")
    hosts.halted.add("host-1")
    taken = await settled(coordinator, lambda each: "host-1" not in each.owners)
    assert None not in taken.owners
    assert "host-1" in hosts.ended
    await coordinator.stop()


# --- nodes ------------------------------------------------------------------------------------------------


@pytest.fixture
async def spread() -> AsyncIterator[tuple[Coordinator, FakeHosts]]:
    """Two nodes with two hosts each."""
    hosts = FakeHosts("n1", "n2")
    coordinator = Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES)
    await coordinator.start()
    yield coordinator, hosts
    await coordinator.stop()


def per_node(hosts: FakeHosts, current: RoutingTable) -> Counter[str]:
    return Counter(hosts.placed[owner] for owner in current.owners if owner is not None)


async def test_each_node_gets_hosts_and_an_equal_share_of_shards(
    spread: tuple[Coordinator, FakeHosts],
) -> None:
    coordinator, hosts = spread
    current = await table(coordinator)
    assert Counter(hosts.placed.values()) == {"n1": 2, "n2": 2}
    assert per_node(hosts, current) == {"n1": 128, "n2": 128}
    assert coordinator.figures()["stanchion_nodes"] == 2


async def test_joining_node_gets_hosts_and_shards(spread: tuple[Coordinator, FakeHosts]) -> None:
    coordinator, hosts = spread
    hosts.living_nodes.append("n3")
    current = await settled(coordinator, lambda each: max(loads(each)) == 43)
    assert loads(current) == [42, 42, 43, 43, 43, 43]
    assert Counter(hosts.placed.values()) == {"n1": 2, "n2": 2, "n3": 2}
    assert coordinator.figures()["stanchion_takeovers"] == 0
    assert all(shard in hosts.owned[owner or ""] for shard, owner in enumerate(current.owners))
    assert sum(map(len, hosts.owned.values())) == SHARD_COUNT, "former owners have released the moved shards"


async def test_shards_of_a_leaving_node_are_taken_over_without_new_hosts(
    spread: tuple[Coordinator, FakeHosts],
) -> None:
    coordinator, hosts = spread
    hosts.living_nodes.remove("n2")
    for name, node in hosts.placed.items():
        if node == "n2":
            hosts.dead[name].set()
    current = await settled(coordinator, lambda each: loads(each) == [128, 128])
    assert per_node(hosts, current) == {"n1": 256}
    assert len(hosts.placed) == 4


@pytest.mark.parametrize("loss", ["dies", "freezes"])
async def test_shards_of_a_lost_host_go_to_other_nodes_because_its_own_may_be_lost_too(
    spread: tuple[Coordinator, FakeHosts], loss: str
) -> None:
    """The second host of the lost node still counts as living."""
    coordinator, hosts = spread
    before = await table(coordinator)
    first, second = (name for name, node in hosts.placed.items() if node == "n2")
    hosts.hangs = ("take", second)
    if loss == "dies":
        hosts.dead[first].set()
    else:
        hosts.frozen.add(first)
    current = await settled(coordinator, lambda each: not {None, first} & set(each.owners))
    takers = {owner for owner, old in zip(current.owners, before.owners, strict=True) if old == first}
    assert {hosts.placed[owner or ""] for owner in takers} == {"n1"}


async def test_node_on_which_no_host_starts_does_not_delay_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 0.02)
    hosts = FakeHosts("n1", "n2")
    hosts.failing_nodes.add("n2")
    coordinator = Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES)
    await coordinator.start()
    assert per_node(hosts, await table(coordinator)) == {"n1": 256}
    hosts.failing_nodes.clear()
    current = await settled(coordinator, lambda each: loads(each) == [64, 64, 64, 64])
    assert per_node(hosts, current) == {"n1": 128, "n2": 128}
    await coordinator.stop()


async def test_start_fails_when_no_host_starts_on_any_node() -> None:
    hosts = FakeHosts()
    hosts.failing_nodes.add("n1")
    with pytest.raises(PeerGoneError):
        await Coordinator(hosts, no_owners, wanted=2, probes=SHORT_PROBES).start()


async def test_drained_node_hands_over_its_shards_and_gets_no_hosts(
    spread: tuple[Coordinator, FakeHosts],
) -> None:
    coordinator, hosts = spread
    leaving = {name for name, node in hosts.placed.items() if node == "n2"}
    assert msgspec.msgpack.decode(await coordinator.call("drain", b"n2")) == 2
    current = await table(coordinator)
    assert per_node(hosts, current) == {"n1": 256}
    assert leaving == set(hosts.stopped) == set(hosts.ended)
    assert coordinator.figures()["stanchion_takeovers"] == 0
    hosts.dead["host-1"].set()
    current = await settled(coordinator, lambda each: loads(each) == [128, 128])
    assert per_node(hosts, current) == {"n1": 256}


async def test_last_node_is_not_drained(coordinator: Coordinator, hosts: FakeHosts) -> None:
    assert msgspec.msgpack.decode(await coordinator.call("drain", b"n1")) is None
    assert loads(await table(coordinator)) == [128, 128]
    assert hosts.stopped == []


# --- replacing hosts --------------------------------------------------------------------------------------


async def test_host_is_replaced_without_a_takeover(coordinator: Coordinator, hosts: FakeHosts) -> None:
    before = await table(coordinator)
    assert await coordinator.call("replace", b"host-1") == b"host-3"
    current = await table(coordinator)
    assert [{"host-1": "host-3"}.get(owner or "", owner) for owner in before.owners] == list(current.owners)
    assert hosts.stopped == hosts.ended == ["host-1"]
    assert hosts.owned["host-1"] == set()
    assert coordinator.figures()["stanchion_takeovers"] == 0
    assert msgspec.msgpack.decode(await coordinator.call("hosts", b"")) == ["host-2", "host-3"]


async def test_unknown_host_is_not_replaced(coordinator: Coordinator, hosts: FakeHosts) -> None:
    assert await coordinator.call("replace", b"host-9") == b""
    assert hosts.placed.keys() == {"host-1", "host-2"}


async def test_host_that_dies_during_its_replacement_is_taken_over(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = hosts.create

    async def slowly(node: str) -> str:
        hosts.dead["host-1"].set()
        await asyncio.sleep(0.05)
        return await create(node)

    monkeypatch.setattr(hosts, "create", slowly)
    assert await coordinator.call("replace", b"host-1") == b""
    current = await settled(coordinator, lambda each: loads(each) == [128, 128])
    assert "host-1" not in current.owners
    assert coordinator.figures()["stanchion_takeovers"] == 1


async def test_failed_take_of_a_successor_leaves_no_shard_unowned(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    hosts.refusals = 1
    await coordinator.call("replace", b"host-1")
    current = await table(coordinator)
    assert None not in current.owners
    assert set(current.owners) <= hosts.owned.keys()
    assert all(shard in hosts.owned[owner or ""] for shard, owner in enumerate(current.owners))


async def test_take_that_hangs_times_out(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that answers pings but no takes must not delay the takeover of a dead host's shards."""
    monkeypatch.setattr(ownership, "MOVE_SECONDS", 0.02)
    call, hanging_hosts, called = hosts.call, {"host-2"}, asyncio.Event()

    async def hanging(incarnation: str, method: str, payload: bytes) -> bytes:
        if method == "take" and incarnation in hanging_hosts:
            called.set()
            await asyncio.Event().wait()
        return await call(incarnation, method, payload)

    monkeypatch.setattr(coordinator._ownership, "_call_host", hanging)
    hosts.dead["host-1"].set()
    await called.wait()
    hanging_hosts.clear()
    assert loads(
        await settled(coordinator, lambda each: None not in each.owners and len(set(each.owners)) == 2)
    )


async def test_release_that_hangs_times_out(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "MOVE_SECONDS", 0.02)
    call = hosts.call

    async def hanging(incarnation: str, method: str, payload: bytes) -> bytes:
        if method == "release":
            await asyncio.Event().wait()
        return await call(incarnation, method, payload)

    monkeypatch.setattr(coordinator._ownership, "_call_host", hanging)
    new = (await coordinator.call("replace", b"host-1")).decode()
    current = await table(coordinator)
    assert set(current.owners) == {new, "host-2"}
    assert hosts.owned[new] >= {shard for shard, owner in enumerate(current.owners) if owner == new}
