"""Memory that runs short, of one process or of one server: its address space may not grow any more.

Nobody else's memory is touched: the kernel refuses that process what it asks for, as it would if there were
none left (RLIMIT_AS, by prlimit(2)).
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
"""What a process may still grow by: less than what it wants to have left."""
SHORT_SECONDS: Final = 3.0
NOTICED_SECONDS_MAX: Final = 5.0
"""A process looks once a second; on a machine that is busy it comes round later."""
MISSED_SECONDS_MAX: Final = 10.0
"""How long it may take until PostgreSQL misses its memory."""
OUT_OF_MEMORY: Final = b"out of memory"
BEFORE_SECONDS: Final = 0.5
LOAD: Final = FloodPhase(seconds=SHORT_SECONDS, in_flight=1_024, late_seconds=ANSWER_SECONDS_MAX)
"""What is asked meanwhile, beside what shoppers do."""


def address_space(pid: int) -> int:
    """How large a process is, in bytes of addresses. Raises ProcessLookupError."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def short(pids: Iterable[int], slack_bytes: int) -> Iterator[None]:
    """Let each process grow by ``slack_bytes`` and no more. Children that it has meanwhile inherit the
    limit: ``give_back`` to those. Raises NotInjectedError."""
    if not hasattr(resource, "prlimit"):
        raise NotInjectedError("this system does not limit the memory of others")
    limited = [pid for pid in pids if _limit(pid, slack_bytes)]
    try:
        if not limited:
            raise NotInjectedError("there was nobody to limit")
        yield
    finally:
        give_back(limited)


def give_back(pids: Iterable[int]) -> None:
    """Let them grow as they like."""
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


async def short_host(rig: Rig) -> Outcome:
    """A shard host, while as much is asked as can be answered: everybody gets an answer."""
    hosts = await rig.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = rig.dice.choice(sorted(hosts))
    terminals = rig.terminals_of(await rig.shards_of(name))
    async with FloodProcess(rig, await rig.more_plastics(FLOOD_CARDS)) as flooding:
        asking = asyncio.create_task(flooding.run(LOAD))
        await asyncio.sleep(BEFORE_SECONDS)
        began, outcome = time.monotonic(), Outcome(0.0)
        await _run_short(rig, hosts[name], outcome)
        said = await rig.spend_at_once(terminals)
        outcome.expect(all(each.outcome == "ok" for each in said), "a card was answered by nobody")
        heard = await asking
    outcome.expect(not heard.unanswered, f"{heard.unanswered} of {heard.offered} were never answered")
    outcome.figure = await rig.back()
    return expect_answers_in_time(rig, began, outcome)


def short_role(role: str) -> Inject:
    """Another process; whoever has a connection to it loses that."""

    async def inject(rig: Rig) -> Outcome:
        began, outcome = time.monotonic(), Outcome(0.0)
        await _run_short(rig, await rig.pid_of(role), outcome)
        outcome.figure = await rig.back()
        return expect_answers_in_time(rig, began, outcome)

    return inject


async def _run_short(rig: Rig, pid: int, outcome: Outcome) -> None:
    """Have ``pid`` get no more memory: it may not live on half able."""
    with short([pid], rig.dice.choice(SLACK_BYTES)):
        try:
            await rig.ended(pid, NOTICED_SECONDS_MAX)
        except TimeoutError:
            outcome.broken.append("it lived on without memory")


# --- PostgreSQL ---------------------------------------------------------------------------------------------


async def short_postgres(rig: Rig) -> Outcome:
    """Every process of PostgreSQL, and those that are begun meanwhile, for connections that were cut."""
    began, told = time.monotonic(), rig.postgres.log.stat().st_size
    with short(rig.server_pids(rig.postgres), 0):
        try:
            rig.to_postgres.cut()
            while OUT_OF_MEMORY not in rig.postgres.log.read_bytes()[told:]:
                if time.monotonic() - began > MISSED_SECONDS_MAX:
                    raise NotInjectedError("nobody missed the memory")
                await asyncio.sleep(0.1)
            await asyncio.sleep(SHORT_SECONDS)
        finally:
            with suppress(NotInjectedError):
                give_back(rig.server_pids(rig.postgres))
            rig.postgres.revive()
    return expect_answers_in_time(rig, began, Outcome(await rig.back()))


MEMORY_FAULTS: Final = (
    Fault("G3", "a shard host without memory", "s until normal", RESTART_SECONDS_MAX, short_host),
    Fault("G3", "the edge without memory", "s until normal", RESTART_SECONDS_MAX, short_role("edge")),
    Fault("G3", "the API server without memory", "s until normal", RESTART_SECONDS_MAX, short_role("api-0")),
    Fault("G16", "PostgreSQL without memory", "s until normal", NORMAL_SECONDS_MAX, short_postgres),
)
