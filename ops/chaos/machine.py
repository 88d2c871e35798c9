"""Faults of the machine itself: a disk that is full, clocks that jump."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults import Fault, Outcome, expect_unnoticed
from ops.chaos.servers import answered_in_time
from ops.chaos.stage import Stage
from ops.revival import Revival
from ops.up import REVIVAL_POLL_SECONDS

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


async def full_disk(stage: Stage) -> Outcome:
    """PostgreSQL, and Redis, cannot write another block; how soon after space there is service."""
    if not stage.disk.mounted:
        raise NotInjectedError("this machine mounts no file system of ours")
    began, told = time.monotonic(), stage.postgres.log.stat().st_size
    reviving = asyncio.create_task(_revive(stage))
    stage.disk.fill()
    try:
        while NO_SPACE not in stage.postgres.log.read_bytes()[told:].decode("utf-8", "replace"):
            if time.monotonic() - began > FULL_SECONDS_MAX:
                raise NotInjectedError("no server needed space")
            await asyncio.sleep(0.1)
        await asyncio.sleep(FULL_SECONDS)
    finally:
        stage.disk.free()
    try:
        return answered_in_time(stage, began, Outcome(await stage.back()))
    finally:
        reviving.cancel()


async def _revive(stage: Stage) -> None:
    """As an installation does with its embedded servers."""
    revivals = [Revival(stage.postgres), Revival(stage.redis)]
    while True:
        for revival in revivals:
            revival.step()
        await asyncio.sleep(REVIVAL_POLL_SECONDS)


async def jump_clock(stage: Stage) -> Outcome:
    """A shard host's clock is wrong, forwards and backwards; the figure is how many holds lapsed by it."""
    before = (await stage.fetch(_LAPSED))[0]["count"]
    hosts = await stage.hosts()
    if not hosts:
        raise NotInjectedError("there are no hosts")
    began, outcome = time.monotonic(), Outcome(0.0)
    pid = hosts[stage.dice.choice(sorted(hosts))]
    for seconds in JUMPS:
        if not stage.clocks.move(pid, seconds):
            raise NotInjectedError("the host's clock cannot be moved")
        try:
            await asyncio.sleep(JUMP_SECONDS)
        finally:
            stage.clocks.move(pid, 0)
    await asyncio.sleep(0.5)
    outcome.figure = float((await stage.fetch(_LAPSED))[0]["count"] - before)
    elsewhen = (await stage.fetch(_ELSEWHEN))[0]["count"]
    outcome.expect(not elsewhen, f"{elsewhen} decisions are on record at another time")
    expect_unnoticed(stage, began, outcome)
    return outcome


MACHINE_FAULTS: Final = (
    Fault("G16", "PostgreSQL's disk full for 30 s", "s from space to normal", SPACE_SECONDS_MAX, full_disk),
    Fault("G3", "a host's clock jumps", "holds lapsed by it", 0, jump_clock),
)
