"""Memory shortage of one process or server: its address space cannot grow any further.

Only that process is limited (RLIMIT_AS, by prlimit(2)): the kernel refuses its allocations, as if no memory
were left.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_answers_in_time
from ops.chaos.faults.fault import (
    ANSWER_SECONDS_MAX,
    NORMAL_SECONDS_MAX,
    RESTART_SECONDS_MAX,
    Fault,
    Inject,
    Outcome,
)
from ops.chaos.faults.overload import FLOOD_CARDS, FloodProcess
from ops.chaos.rig import Rig
from ops.chaos.traffic.flood import FloodPhase

SLACK_BYTES: Final = (0, 1 << 20, 4 << 20)
"""Bytes by which a process may still grow: less than the reserve that it needs."""
SHORTAGE_SECONDS: Final = 3.0
NOTICED_SECONDS_MAX: Final = 5.0
"""A process checks once a second; on a busy machine it checks late."""
EXHAUSTED_SECONDS_MAX: Final = 10.0
"""Maximum time until PostgreSQL runs out of memory."""
OUT_OF_MEMORY: Final = b"out of memory"
BEFORE_SECONDS: Final = 0.5
LOAD: Final = FloodPhase(seconds=SHORTAGE_SECONDS, in_flight=1_024, late_seconds=ANSWER_SECONDS_MAX)
"""Load during the shortage, in addition to the shoppers."""


def address_space(pid: int) -> int:
    """The size of a process's address space in bytes. Raises ProcessLookupError."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def limit_memory(pids: Iterable[int], slack_bytes: int) -> Iterator[None]:
    """Let each process grow by at most ``slack_bytes``. Children started in this state inherit the limit:
    call ``lift_limits`` for them too. Raises NotInjectedError."""
    if not hasattr(resource, "prlimit"):
        raise NotInjectedError("this system cannot limit another process's memory")
    limited = [pid for pid in pids if _limit(pid, slack_bytes)]
    try:
        if not limited:
            raise NotInjectedError("no process to limit was found")
        yield
    finally:
        lift_limits(limited)


def lift_limits(pids: Iterable[int]) -> None:
    """Remove the limits."""
    for pid in pids:
        with suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
            resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))


def _limit(pid: int, slack_bytes: int) -> bool:
    with suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (address_space(pid) + slack_bytes, hard))
        return True
    return False


# --- processes of the installation --------------------------------------------------------------------------


async def exhaust_host(rig: Rig) -> Outcome:
    """A shard host runs out of memory under full load; every request must be answered."""
    name, pid = await rig.serving_host()
    terminals = rig.terminals_of(await rig.shards_of(name))
    async with FloodProcess(rig, await rig.more_plastics(FLOOD_CARDS)) as flooding:
        flood = asyncio.create_task(flooding.run(LOAD))
        await asyncio.sleep(BEFORE_SECONDS)
        began, outcome = time.monotonic(), Outcome(0.0)
        await _exhaust(rig, pid, outcome)
        operations = await rig.spend_at_once(terminals)
        outcome.expect(all(each.outcome == "ok" for each in operations), "a card was not answered")
        result = await flood
    outcome.expect(not result.unanswered, f"{result.unanswered} of {result.offered} were never answered")
    outcome.figure = await rig.recovered()
    return expect_answers_in_time(rig, began, outcome)


def exhaust_role(role: str) -> Inject:
    """Another role runs out of memory; its connections end with it."""

    async def inject(rig: Rig) -> Outcome:
        began, outcome = time.monotonic(), Outcome(0.0)
        await _exhaust(rig, await rig.pid_of(role), outcome)
        outcome.figure = await rig.recovered()
        return expect_answers_in_time(rig, began, outcome)

    return inject


async def _exhaust(rig: Rig, pid: int, outcome: Outcome) -> None:
    """Limit ``pid``, and expect that it ends instead of running on without memory."""
    with limit_memory([pid], rig.dice.choice(SLACK_BYTES)):
        try:
            await rig.ended(pid, NOTICED_SECONDS_MAX)
        except TimeoutError:
            outcome.broken.append("the process continued without memory")


# --- PostgreSQL ---------------------------------------------------------------------------------------------


async def exhaust_postgres(rig: Rig) -> Outcome:
    """All processes of PostgreSQL run out of memory, including those that it starts to replace reset
    connections."""
    began, log_offset = time.monotonic(), rig.postgres.log.stat().st_size
    with limit_memory(rig.server_pids(rig.postgres), 0):
        try:
            rig.to_postgres.cut()
            while OUT_OF_MEMORY not in rig.postgres.log.read_bytes()[log_offset:]:
                if time.monotonic() - began > EXHAUSTED_SECONDS_MAX:
                    raise NotInjectedError("PostgreSQL did not run out of memory")
                await asyncio.sleep(0.1)
            await asyncio.sleep(SHORTAGE_SECONDS)
        finally:
            with suppress(NotInjectedError):
                lift_limits(rig.server_pids(rig.postgres))
            rig.postgres.revive()
    return expect_answers_in_time(rig, began, Outcome(await rig.recovered()))


MEMORY_FAULTS: Final = (
    Fault("G3", "a shard host without memory", "s until normal", RESTART_SECONDS_MAX, exhaust_host),
    Fault("G3", "the edge without memory", "s until normal", RESTART_SECONDS_MAX, exhaust_role("edge")),
    Fault(
        "G3", "the API server without memory", "s until normal", RESTART_SECONDS_MAX, exhaust_role("api-0")
    ),
    Fault("G16", "PostgreSQL without memory", "s until normal", NORMAL_SECONDS_MAX, exhaust_postgres),
)
