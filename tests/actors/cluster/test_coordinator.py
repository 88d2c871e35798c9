"""The coordinator over hosts that die, freeze, refuse and are replaced; no Ray."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from actors.cluster import coordinator as module
from actors.cluster.coordinator import Coordinator
from actors.peers import PeerGoneError, RoutingTable
from engine.limits import SHARD_COUNT

_shards = msgspec.msgpack.Decoder(list[int]).decode
_table = msgspec.msgpack.Decoder(RoutingTable).decode


class FakeHosts:
    """Hosts in memory. ``owned`` is what each believes it owns."""

    def __init__(self) -> None:
        self.owned: dict[str, set[int]] = {}
        self.dead: dict[str, asyncio.Event] = {}
        self.frozen: set[str] = set()
        self.seen_frozen: set[str] = set()
        self.ended: list[str] = []
        self.heard: list[tuple[str, bytes]] = []
        self.refusals = 0
        self.stopped: list[str] = []
        self._count = 0

    async def create(self) -> str:
        self._count += 1
        name = f"host-{self._count}"
        self.owned[name] = set()
        self.dead[name] = asyncio.Event()
        return name

    async def living(self) -> set[str]:
        return {name for name, dead in self.dead.items() if not dead.is_set()}

    async def ping(self, incarnation: str) -> None:
        self._alive(incarnation)
        if incarnation in self.frozen:
            await self.dead[incarnation].wait()
            raise PeerGoneError(incarnation)

    def stands_still(self, incarnation: str) -> bool:
        return incarnation in self.seen_frozen

    async def death(self, incarnation: str) -> None:
        await self.dead[incarnation].wait()
        raise PeerGoneError(incarnation)

    async def call(self, incarnation: str, method: str, payload: bytes) -> bytes:
        await self.ping(incarnation)
        if method == "take":
            if self.refusals:
                self.refusals -= 1
                return b"unavailable"
            self.owned[incarnation] |= set(_shards(payload))
            return b"taken"
        if method == "release":
            self.owned[incarnation] -= set(_shards(payload))
        else:
            self.heard.append((incarnation, payload))
        return b""

    async def stop(self, incarnation: str) -> None:
        self._alive(incarnation)
        self.stopped.append(incarnation)

    def end(self, incarnation: str) -> None:
        self.ended.append(incarnation)
        self.dead.setdefault(incarnation, asyncio.Event()).set()

    def _alive(self, incarnation: str) -> None:
        if incarnation not in self.dead or self.dead[incarnation].is_set():
            raise PeerGoneError(incarnation)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence need not last a second here."""
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(module, "PING_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


@pytest.fixture
def hosts() -> FakeHosts:
    return FakeHosts()


@pytest.fixture
async def coordinator(hosts: FakeHosts) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(hosts, nobody, wanted=2)
    await coordinator.start()
    yield coordinator
    await coordinator.stop()


async def nobody() -> dict[int, str | None]:
    return dict.fromkeys(range(SHARD_COUNT))


async def table(coordinator: Coordinator, after: int = 0) -> RoutingTable:
    return _table(await coordinator.call("table", msgspec.msgpack.encode(after)))


async def settled(coordinator: Coordinator, wanted: Callable[[RoutingTable], bool]) -> RoutingTable:
    """The first table that satisfies ``wanted``."""
    current = await table(coordinator)
    async with asyncio.timeout(5):
        while not wanted(current):
            current = await table(coordinator, current.version)
    return current


def loads(current: RoutingTable) -> list[int]:
    return sorted(Counter(current.owners).values())


async def test_every_shard_gets_an_owner_evenly(coordinator: Coordinator, hosts: FakeHosts) -> None:
    current = await table(coordinator)
    assert loads(current) == [128, 128]
    assert all(shard in hosts.owned[owner or ""] for shard, owner in enumerate(current.owners))


@pytest.mark.parametrize("way", ["dies", "freezes"])
async def test_survivors_take_over_and_a_successor_gets_its_share(
    coordinator: Coordinator, hosts: FakeHosts, way: str
) -> None:
    if way == "dies":
        hosts.dead["host-1"].set()
    else:
        hosts.frozen.add("host-1")
    taken_over = await settled(coordinator, lambda each: "host-1" not in each.owners)
    assert None not in taken_over.owners
    assert "host-1" in hosts.ended
    current = await settled(coordinator, lambda each: loads(each) == [128, 128])
    assert set(current.owners) == {"host-2", "host-3"}
    assert coordinator.figures()["stanchion_takeovers"] == 1


async def test_all_hosts_can_die_at_once(coordinator: Coordinator, hosts: FakeHosts) -> None:
    for name in ("host-1", "host-2"):
        hosts.dead[name].set()
    current = await settled(coordinator, lambda each: set(each.owners) == {"host-3", "host-4"})
    assert loads(current) == [128, 128]


async def test_a_take_that_is_refused_is_tried_again(coordinator: Coordinator, hosts: FakeHosts) -> None:
    hosts.refusals = 3
    hosts.dead["host-1"].set()
    current = await settled(coordinator, lambda each: "host-1" not in each.owners and None not in each.owners)
    assert set(current.owners) <= {"host-2", "host-3"}


async def test_versions_only_rise(coordinator: Coordinator, hosts: FakeHosts) -> None:
    first = await table(coordinator)
    hosts.dead["host-1"].set()
    later = await table(coordinator, first.version)
    assert later.version > first.version


async def test_a_new_coordinator_finds_the_hosts_that_live(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    current = await table(coordinator)

    async def owners() -> dict[int, str | None]:
        return dict(enumerate(current.owners))

    spare = await hosts.create()
    second = Coordinator(hosts, owners, wanted=2)
    await second.start()
    found = await table(second)
    assert set(found.owners) == {"host-1", "host-2"}
    assert found.version > 0
    assert spare in hosts.ended
    await second.stop()


async def test_all_living_hosts_hear_of_a_programme(coordinator: Coordinator, hosts: FakeHosts) -> None:
    await coordinator.call("publish_programme", b"config")
    assert sorted(hosts.heard) == [("host-1", b"config"), ("host-2", b"config")]


async def test_a_dying_host_does_not_keep_a_programme_from_the_others(
    coordinator: Coordinator, hosts: FakeHosts
) -> None:
    hosts.dead["host-1"].set()
    await coordinator.call("publish_programme", b"config")
    assert ("host-2", b"config") in hosts.heard


async def test_stopping_lets_every_host_finish_and_ends_it(hosts: FakeHosts) -> None:
    coordinator = Coordinator(hosts, nobody, wanted=3)
    await coordinator.start()
    await coordinator.stop()
    await coordinator.stop()
    assert sorted(hosts.stopped) == sorted(hosts.ended) == ["host-1", "host-2", "host-3"]


async def test_a_freeze_that_is_seen_is_not_waited_for(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENCE_SECONDS", 60.0)
    hosts.frozen.add("host-1")
    hosts.seen_frozen.add("host-1")
    taken = await settled(coordinator, lambda each: "host-1" not in each.owners)
    assert None not in taken.owners
    assert "host-1" in hosts.ended


async def test_one_look_proves_nothing(
    coordinator: Coordinator, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: defaultdict[str, itertools.cycle[bool]] = defaultdict(lambda: itertools.cycle((True, False)))
    monkeypatch.setattr(hosts, "stands_still", lambda incarnation: next(looks[incarnation]))
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    await asyncio.sleep(0.03)
    assert hosts.ended == []
