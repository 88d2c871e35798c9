"""Faults of the machine: a full disk, clock jumps."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_answers_in_time, expect_unnoticed
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.supervision.restarter import ServerRestarter
from ops.supervision.up import RESTART_POLL_SECONDS

FULL_SECONDS_MAX: Final = 20.0
"""Maximum time until a server needs disk space."""
FULL_SECONDS: Final = 30.0
"""How long the disk then stays full: longer than a series of quick restarts."""
SPACE_SECONDS_MAX: Final = 5.0
"""From free space to normal service."""
NO_SPACE: Final = "No space left on device"
JUMPS: Final = (8 * 86_400, -86_400)
"""Forward beyond the life of holds, and back by more than a day."""
JUMP_SECONDS: Final = 2.5

_LAPSED: Final = "SELECT count(*) FROM holds WHERE state = 'lapsed'"
_MISDATED: Final = """
    SELECT count(*) FROM journal WHERE recorded_at NOT BETWEEN now() - interval '2 hours' AND now() + interval
    '1 hour'"""


async def full_disk(rig: Rig) -> Outcome:
    """PostgreSQL and Redis cannot allocate disk blocks. Figure: seconds from free space to normal service."""
    if not rig.disk.mounted:
        raise NotInjectedError("no test file system could be mounted on this machine")
    # PostgreSQL's own redo takes about ten seconds for each gigabyte of log since the last checkpoint, after
    # every crash. This figure is about everything else.
    await rig.fetch("CHECKPOINT")
    began, log_offset = time.monotonic(), rig.postgres.log.stat().st_size
    restarting = asyncio.create_task(_restart_servers(rig))
    rig.disk.fill()
    try:
        while NO_SPACE not in rig.postgres.log.read_bytes()[log_offset:].decode("utf-8", "replace"):
            if time.monotonic() - began > FULL_SECONDS_MAX:
                raise NotInjectedError("no server needed disk space")
            await asyncio.sleep(0.1)
        await asyncio.sleep(FULL_SECONDS)
    finally:
        rig.disk.free()
    try:
        return expect_answers_in_time(rig, began, Outcome(await rig.recovered()))
    finally:
        restarting.cancel()


async def _restart_servers(rig: Rig) -> None:
    """Restart servers as an installation does with its embedded ones."""
    restarters = [ServerRestarter(rig.postgres), ServerRestarter(rig.redis)]
    while True:
        for restarter in restarters:
            restarter.step()
        await asyncio.sleep(RESTART_POLL_SECONDS)


async def jump_clock(rig: Rig) -> Outcome:
    """A shard host's wall clock jumps forward, then back. Figure: holds that lapsed because of it."""
    before = (await rig.fetch(_LAPSED))[0]["count"]
    _, pid = await rig.serving_host()
    began, outcome = time.monotonic(), Outcome(0.0)
    for seconds in JUMPS:
        if not rig.clocks.move(pid, seconds):
            raise NotInjectedError("the host's clock cannot be moved")
        try:
            await asyncio.sleep(JUMP_SECONDS)
        finally:
            rig.clocks.move(pid, 0)
    await asyncio.sleep(0.5)
    outcome.figure = float((await rig.fetch(_LAPSED))[0]["count"] - before)
    misdated = (await rig.fetch(_MISDATED))[0]["count"]
    outcome.expect(not misdated, f"{misdated} journal rows have a wrong time")
    expect_unnoticed(rig, began, outcome)
    return outcome


MACHINE_FAULTS: Final = (
    Fault("G16", "PostgreSQL's disk full for 30 s", "s from space to normal", SPACE_SECONDS_MAX, full_disk),
    Fault("G3", "a host's clock jumps", "holds lapsed", 0, jump_clock),
)
