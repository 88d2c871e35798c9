"""When a process counts as lost: by its connection, by the kernel's report, by unanswered pings. No Ray."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from actors.cluster.liveness import (
    HOST_PROBES,
    ROLE_PROBES,
    Checks,
    ProbePolicy,
    probe,
    until_tick,
    wait_lost,
)
from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import WATCHER_LATE_SECONDS
from tests.support.steady_loop import advance

pytestmark = pytest.mark.virtual_time

SHORT_PROBES = ProbePolicy(ping_seconds=0.001, silence_seconds=0.02, check_seconds=0.001)


class FakeProcess:
    """A process that answers until a test changes its state."""

    def __init__(self) -> None:
        self.dead = asyncio.Event()
        self.silent = False
        self.fails = False
        self.stopped: Iterator[bool] = itertools.repeat(False)
        self.pings = 0

    async def ping(self) -> None:
        self.pings += 1
        if self.fails:
            raise PeerFailedError("it")
        if self.silent:
            await asyncio.Event().wait()

    async def death(self) -> None:
        await self.dead.wait()
        raise PeerGoneError("it")

    def is_halted(self) -> bool:
        return next(self.stopped)

    async def lost(self, policy: ProbePolicy = SHORT_PROBES, checks: Checks | None = None) -> str:
        checks = checks or Checks(policy.check_seconds)
        async with asyncio.timeout(60):
            return await wait_lost(self.ping, self.death, self.is_halted, policy, checks)

    async def pinged(self, times: int) -> None:
        async with asyncio.timeout(60):
            while True:
                if self.pings >= times:
                    return
                await asyncio.sleep(0.001)


async def test_end_of_the_connection_is_an_immediate_loss() -> None:
    process = FakeProcess()
    watching = asyncio.create_task(process.lost(SHORT_PROBES._replace(silence_seconds=60)))
    await process.pinged(2)
    process.dead.set()
    assert await watching == "ended"


async def test_unanswered_ping_is_a_loss() -> None:
    process = FakeProcess()
    process.silent = True
    assert await process.lost() == "silent"


async def test_failing_ping_is_a_loss() -> None:
    process = FakeProcess()
    process.fails = True
    assert await process.lost() == "ended"


async def test_stopped_process_is_lost_before_its_pings_time_out() -> None:
    process = FakeProcess()
    process.silent, process.stopped = True, itertools.repeat(True)
    assert await process.lost(SHORT_PROBES._replace(silence_seconds=60)) == "stopped"


async def test_stopped_host_is_lost_after_one_interval_and_the_confirmation() -> None:
    loop = asyncio.get_running_loop()
    process = FakeProcess()
    watching = asyncio.create_task(process.lost(HOST_PROBES))
    await asyncio.sleep(10)
    process.silent, process.stopped, stopped_at = True, itertools.repeat(True), loop.time()
    assert await watching == "stopped"
    latest = HOST_PROBES.check_seconds + HOST_PROBES.confirm_seconds
    assert loop.time() - stopped_at <= latest + 0.001


async def test_single_look_at_a_stopped_process_is_no_loss() -> None:
    process = FakeProcess()
    process.stopped = itertools.cycle((True, False))
    watching = asyncio.create_task(process.lost(SHORT_PROBES._replace(silence_seconds=60)))
    await process.pinged(20)
    assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])


async def test_watcher_without_processor_time_pings_again() -> None:
    pings = 0

    async def ping() -> None:
        nonlocal pings
        pings += 1
        if pings == 1:
            # The answer arrives and the allowed silence ends while this loop gets no
            # processor time.
            blocked_seconds = SHORT_PROBES.silence_seconds + 2 * WATCHER_LATE_SECONDS
            asyncio.get_running_loop().call_soon(advance, blocked_seconds)
            await asyncio.sleep(SHORT_PROBES.silence_seconds)

    assert await probe(ping, SHORT_PROBES) is None
    assert pings == 2


@pytest.mark.parametrize("policy", [HOST_PROBES, ROLE_PROBES])
def test_doubling_changes_the_silence_only(policy: ProbePolicy) -> None:
    assert policy.with_doubled_silence(0) == policy
    assert policy.with_doubled_silence(2) == policy._replace(silence_seconds=4 * policy.silence_seconds)


async def test_watchers_of_several_processes_wake_together() -> None:
    loop = asyncio.get_running_loop()
    woken: list[float] = []

    class Watched(FakeProcess):
        def is_halted(self) -> bool:
            woken.append(loop.time())
            return False

    policy = ProbePolicy(ping_seconds=60.0, silence_seconds=60.0, check_seconds=0.1)
    checks = Checks(policy.check_seconds)
    watching = []
    for _ in range(3):
        watching.append(asyncio.create_task(Watched().lost(policy, checks)))
        await asyncio.sleep(0.031)
    woken.clear()
    await asyncio.sleep(10)
    assert len({round(at, 3) for at in woken}) <= 101
    assert len(woken) >= 3 * 98
    for each in watching:
        each.cancel()
    await asyncio.wait(watching)


async def test_condition_that_fails_reaches_its_own_waiter() -> None:
    checks, counted = Checks(0.1), itertools.count()

    def fails() -> bool:
        raise OSError("unreadable")

    third = asyncio.create_task(checks.until(lambda: next(counted) == 2))
    with pytest.raises(OSError, match="unreadable"):
        await checks.until(fails)
    assert not third.done()
    await asyncio.wait_for(third, 1)


async def test_condition_without_a_waiter_is_not_called() -> None:
    checks, calls = Checks(0.1), itertools.count()
    waiting = asyncio.create_task(checks.until(lambda: next(calls) < 0))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.sleep(1)
    assert next(calls) in (9, 10, 11)


async def test_next_tick_is_at_a_multiple_of_the_interval() -> None:
    await asyncio.sleep(until_tick(0.5))
    now = asyncio.get_running_loop().time()
    assert now / 0.5 == pytest.approx(round(now / 0.5))
    assert until_tick(0.5) == pytest.approx(0.5)
