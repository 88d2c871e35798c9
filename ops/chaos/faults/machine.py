"""Faults of the machine itself: a disk that is full, clocks that jump."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_answers_in_time, expect_unnoticed
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.supervision.restarter import ServerRestarter
from ops.supervision.up import REVIVAL_POLL_SECONDS

FULL_SECONDS_MAX: Final = 20.0
"""How long it may take until somebody misses the space."""
FULL_SECONDS: Final = 30.0
"""How long it then stays full: longer than any number of quick restarts."""
SPACE_SECONDS_MAX: Final = 5.0
"""From free space to normal service."""
NO_SPACE: Final = "No space left on device"
JUMPS: Final = (8 * 86_400, -86_400)
"""Ahead, beyond what holds last, and back beyond a day."""
JUMP_SECONDS: Final = 2.5

_LAPSED: Final = "SELECT count(*) FROM holds WHERE state = 'lapsed'"
_ELSEWHEN: Final = """
    SELECT count(*) FROM journal WHERE recorded_at NOT BETWEEN now() - interval '2 hours' AND now() + interval
    '1 hour'"""


async def full_disk(rig: Rig) -> Outcome:
    """PostgreSQL, and Redis, cannot write another block; how soon after space there is service."""
    if not rig.disk.mounted:
        raise NotInjectedError("this machine mounts no file system of ours")
    began, told = time.monotonic(), rig.postgres.log.stat().st_size
    reviving = asyncio.create_task(_revive(rig))
    rig.disk.fill()
    try:
        while NO_SPACE not in rig.postgres.log.read_bytes()[told:].decode("utf-8", "replace"):
            if time.monotonic() - began > FULL_SECONDS_MAX:
                raise NotInjectedError("no server needed space")
            await asyncio.sleep(0.1)
        await asyncio.sleep(FULL_SECONDS)
    finally:
        rig.disk.free()
    try:
        return expect_answers_in_time(rig, began, Outcome(await rig.back()))
    finally:
        reviving.cancel()


async def _revive(rig: Rig) -> None:
    """As an installation does with its embedded servers."""
    revivals = [ServerRestarter(rig.postgres), ServerRestarter(rig.redis)]
    while True:
        for revival in revivals:
            revival.step()
        await asyncio.sleep(REVIVAL_POLL_SECONDS)


async def jump_clock(rig: Rig) -> Outcome:
    """A shard host's clock is wrong, forwards and backwards; the figure is how many holds lapsed by it."""
    before = (await rig.fetch(_LAPSED))[0]["count"]
    hosts = await rig.hosts()
    if not hosts:
        raise NotInjectedError("there are no hosts")
    began, outcome = time.monotonic(), Outcome(0.0)
    pid = hosts[rig.dice.choice(sorted(hosts))]
    for seconds in JUMPS:
        if not rig.clocks.move(pid, seconds):
            raise NotInjectedError("the host's clock cannot be moved")
        try:
            await asyncio.sleep(JUMP_SECONDS)
        finally:
            rig.clocks.move(pid, 0)
    await asyncio.sleep(0.5)
    outcome.figure = float((await rig.fetch(_LAPSED))[0]["count"] - before)
    elsewhen = (await rig.fetch(_ELSEWHEN))[0]["count"]
    outcome.expect(not elsewhen, f"{elsewhen} decisions are on record at another time")
    expect_unnoticed(rig, began, outcome)
    return outcome


MACHINE_FAULTS: Final = (
    Fault("G16", "PostgreSQL's disk full for 30 s", "s from space to normal", SPACE_SECONDS_MAX, full_disk),
    Fault("G3", "a host's clock jumps", "holds lapsed by it", 0, jump_clock),
)
