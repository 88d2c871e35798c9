"""What a coordinator notices of hosts, before and after it leads. No Ray."""

from __future__ import annotations

import asyncio

import pytest

from actors.cluster.host_watch import HostWatch
from tests.support.actors.cluster.fakes import until
from tests.support.actors.cluster.hosts import SHORT_PROBES, FakeHosts

pytestmark = pytest.mark.virtual_time


class CountingHosts(FakeHosts):
    """Counts pings."""

    pings = 0

    async def ping(self, incarnation: str) -> None:
        self.pings += 1
        await super().ping(incarnation)


async def watched() -> tuple[HostWatch, CountingHosts, list[tuple[str, str]]]:
    """A watch of two hosts that does not probe yet, and the losses that it reports."""
    hosts = CountingHosts()
    lost: list[tuple[str, str]] = []
    watch = HostWatch(hosts, lambda incarnation, reason: lost.append((incarnation, reason)), SHORT_PROBES)
    for _ in range(2):
        watch.add(await hosts.create("n1"))
    return watch, hosts, lost


async def test_only_the_end_of_a_connection_is_a_loss_before_probing() -> None:
    watch, hosts, lost = await watched()
    hosts.frozen.add("host-1")
    hosts.halted.add("host-1")
    await asyncio.sleep(100 * SHORT_PROBES.silence_seconds)
    assert (lost, hosts.pings) == ([], 0)
    hosts.dead["host-2"].set()
    await until(lambda: lost == [("host-2", "ended")])
    await watch.stop()


async def test_probing_finds_hosts_that_were_lost_before_it() -> None:
    watch, hosts, lost = await watched()
    hosts.frozen.add("host-1")
    hosts.frozen.add("host-2")
    hosts.halted.add("host-2")
    await asyncio.sleep(SHORT_PROBES.silence_seconds)
    watch.start_probing()
    watch.start_probing()
    await until(lambda: len(lost) == 2)
    assert {incarnation for incarnation, _ in lost} == {"host-1", "host-2"}
    assert {reason for _, reason in lost} <= {"silent", "stopped"}
    await watch.stop()


async def test_host_that_is_added_while_probing_is_pinged() -> None:
    watch, hosts, lost = await watched()
    watch.start_probing()
    watch.add(await hosts.create("n1"))
    hosts.frozen.add("host-3")
    await until(lambda: lost == [("host-3", "silent")])
    assert hosts.pings > 1
    await watch.stop()
