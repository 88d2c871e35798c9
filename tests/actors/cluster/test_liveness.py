"""When a process counts as lost: by its connection, by the kernel, by its silence. No Ray."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator

import pytest

from actors.cluster.liveness import HOST_PULSE, ROLE_PULSE, Pulse, loss, silence
from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import PULSE_LATE_SECONDS

QUICK = Pulse(ping_seconds=0.001, silence_seconds=0.02, look_seconds=0.001)


class Watched:
    """A process that answers until it is told otherwise."""

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

    def stands_still(self) -> bool:
        return next(self.stopped)

    async def lost(self, pulse: Pulse = QUICK) -> str:
        async with asyncio.timeout(60):
            return await loss(self.ping, self.death, self.stands_still, pulse)

    async def pinged(self, times: int) -> None:
        async with asyncio.timeout(60):
            while True:
                if self.pings >= times:
                    return
                await asyncio.sleep(0.001)


async def test_end_of_the_connection_is_a_loss_at_once() -> None:
    watched = Watched()
    watching = asyncio.create_task(watched.lost(QUICK._replace(silence_seconds=60)))
    await watched.pinged(2)
    watched.dead.set()
    assert await watching == "ended"


async def test_unanswered_ping_is_a_loss() -> None:
    watched = Watched()
    watched.silent = True
    assert await watched.lost() == "silent"


async def test_failing_ping_is_a_loss() -> None:
    watched = Watched()
    watched.fails = True
    assert await watched.lost() == "ended"


async def test_stopped_process_is_lost_before_its_silence_ends() -> None:
    watched = Watched()
    watched.silent, watched.stopped = True, itertools.repeat(True)
    assert await watched.lost(QUICK._replace(silence_seconds=60)) == "stopped"


async def test_single_look_at_a_stopped_process_is_no_loss() -> None:
    watched = Watched()
    watched.stopped = itertools.cycle((True, False))
    watching = asyncio.create_task(watched.lost(QUICK._replace(silence_seconds=60)))
    await watched.pinged(20)
    assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])


async def test_watcher_without_processor_time_pings_again() -> None:
    pings = 0

    async def ping() -> None:
        nonlocal pings
        pings += 1
        if pings == 1:
            # The answer arrives and the silence ends while this loop is blocked.
            asyncio.get_running_loop().call_soon(time.sleep, QUICK.silence_seconds + 2 * PULSE_LATE_SECONDS)
            await asyncio.sleep(QUICK.silence_seconds)

    assert await silence(ping, QUICK) is None
    assert pings == 2


@pytest.mark.parametrize("pulse", [HOST_PULSE, ROLE_PULSE])
def test_patience_doubles_the_silence_alone(pulse: Pulse) -> None:
    assert pulse.patient(0) == pulse
    assert pulse.patient(2) == pulse._replace(silence_seconds=4 * pulse.silence_seconds)
