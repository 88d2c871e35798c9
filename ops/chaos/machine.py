"""Faults of the machine itself: a disk that is full, clocks that jump."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults import NORMAL_SECONDS_MAX, Fault, Outcome, expect_unnoticed
from ops.chaos.servers import answered_in_time
from ops.chaos.stage import Stage

FULL_SECONDS_MAX: Final = 20.0
"""How long it may take until somebody misses the space."""
FULL_SECONDS: Final = 3.0
"""How long it then stays full."""
NO_SPACE: Final = "No space left on device"
JUMPS: Final = (8 * 86_400, -86_400)
"""Ahead, beyond what holds last, and back beyond a day."""
JUMP_SECONDS: Final = 2.5

_LAPSED: Final = "SELECT count(*) FROM holds WHERE state = 'lapsed'"
_ELSEWHEN: Final = """
    SELECT count(*) FROM journal WHERE recorded_at NOT BETWEEN now() - interval '2 hours' AND now() + interval
    '1 hour'"""


async def full_disk(stage: Stage) -> Outcome:
    """PostgreSQL, and Redis, cannot write another block."""
    if not stage.disk.mounted:
        raise NotInjectedError("this machine mounts no file system of ours")
    began, told = time.monotonic(), stage.postgres.log.stat().st_size
    stage.disk.fill()
    try:
        while NO_SPACE not in stage.postgres.log.read_bytes()[told:].decode("utf-8", "replace"):
            if time.monotonic() - began > FULL_SECONDS_MAX:
                raise NotInjectedError("nobody missed the space")
            await asyncio.sleep(0.1)
        await asyncio.sleep(FULL_SECONDS)
    finally:
        stage.disk.free()
        # Where the write-ahead log could not go on, PostgreSQL has ended.
        stage.postgres.revive()
        stage.redis.revive()
    return answered_in_time(stage, began, Outcome(await stage.back()))


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
    Fault("G16", "PostgreSQL's disk full", "s until normal", NORMAL_SECONDS_MAX, full_disk),
    Fault("G3", "a host's clock jumps", "holds lapsed by it", 0, jump_clock),
)
