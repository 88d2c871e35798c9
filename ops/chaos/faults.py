"""The faults: each is injected under load, measured, and taken away again.

A fault that could not be injected shows nothing, and one during which nobody asked anything shows nothing
either; both are said, never passed over.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.processes import gone, send
from ops.chaos.stage import NotInjectedError, Stage
from ops.histories.operations import Operation

FIRST_GOOD_MS_MAX: Final = 500.0
OLD_OWNER_SECONDS_MAX: Final = 2.0
ANSWER_SECONDS_MAX: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 1
"""The deadline of an authorization and one second."""
NORMAL_SECONDS_MAX: Final = 15.0
RESTART_SECONDS_MAX: Final = 60.0
"""A process of Python and Ray takes seconds to start, many of them on a machine that is busy; nothing waits
for it but its own work."""
IN_FLIGHT_SECONDS: Final = 0.15
"""What was committed when the fault began may still be told for so long."""


@dataclass
class Outcome:
    """What one round has shown."""

    figure: float
    """The worst that was measured, in the fault's own unit."""
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.broken.append(what)


Inject = Callable[[Stage], Awaitable[Outcome]]


@dataclass(frozen=True)
class Fault:
    """One row of the table; ``limit`` is what its figure may be at most."""

    promise: str
    name: str
    unit: str
    limit: float | None
    inject: Inject | None = None
    """Absent where nothing is done to an installation."""


# --- shard hosts --------------------------------------------------------------------------------------------


async def kill_host(stage: Stage) -> Outcome:
    """kill -9: how soon its cards are answered again."""
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = stage.dice.choice(sorted(hosts))
    tills = stage.tills_of(await stage.shards_of(name))
    _strike(signal.SIGKILL, [hosts[name]])
    began = time.monotonic()
    return _first_good(await stage.spend_at_once(tills), began)


async def freeze_host(stage: Stage) -> Outcome:
    """SIGSTOP: how soon its cards are answered, and that it ends, without a commit, when it wakes up."""
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = stage.dice.choice(sorted(hosts))
    pid, tills = hosts[name], stage.tills_of(await stage.shards_of(name))
    _strike(signal.SIGSTOP, [pid])
    began = time.monotonic()
    try:
        outcome = _first_good(await stage.spend_at_once(tills), began)
    finally:
        send(signal.SIGCONT, [pid])
    try:
        await stage.ended(pid, OLD_OWNER_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("the old owner lives on")
    return outcome


def _first_good(operations: list[Operation], began: float) -> Outcome:
    waits = sorted(1000 * ((each.ended or 0.0) - began) for each in operations if each.outcome == "ok")
    if not waits:
        raise NotInjectedError("the host had no cards, or none of them was answered")
    outcome = Outcome(waits[0])
    outcome.expect(len(waits) == len(operations), "a card got no answer")
    outcome.expect(waits[-1] <= 1000 * ANSWER_SECONDS_MAX, f"a card waited for {waits[-1]:.0f} ms")
    return outcome


# --- other processes ----------------------------------------------------------------------------------------


def kill_role(role: str, *, noticed: bool) -> Inject:
    """kill -9 of a role; ``noticed`` unless decisions must go on as if nothing had happened."""

    async def inject(stage: Stage) -> Outcome:
        pid = await stage.pid_of(role)
        began = time.monotonic()
        _strike(signal.SIGKILL, [pid])

        async def again() -> bool:
            return (await stage.processes()).get(role, pid) != pid

        await stage.until(again, f"{role} serves again", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        if not noticed:
            _expect_unnoticed(stage, began, outcome)
        return outcome

    return inject


def freeze_role(role: str, seconds: float, *, noticed: bool) -> Inject:
    """SIGSTOP and SIGCONT of a role."""

    async def inject(stage: Stage) -> Outcome:
        pid = await stage.pid_of(role)
        began = time.monotonic()
        _strike(signal.SIGSTOP, [pid])
        try:
            await asyncio.sleep(seconds)
        finally:
            send(signal.SIGCONT, [pid])
        outcome = Outcome(0.0)
        if not noticed:
            _expect_unnoticed(stage, began, outcome)
        outcome.expect(not gone(pid), f"{role} died of it")
        outcome.figure = await stage.back()
        return outcome

    return inject


def _expect_unnoticed(stage: Stage, began: float, outcome: Outcome) -> None:
    """Decisions did not notice."""
    asked = [each for each in stage.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    errors = sum(each.outcome != "ok" for each in asked)
    outcome.expect(not errors, f"{errors} of {len(asked)} decisions noticed")


# --- PostgreSQL ---------------------------------------------------------------------------------------------


async def kill_postgres(stage: Stage) -> Outcome:
    """kill -9 of every process of PostgreSQL."""
    _strike(signal.SIGKILL, stage.server_pids(stage.postgres))
    began = time.monotonic()
    await asyncio.sleep(stage.dice.uniform(0.2, 1.5))
    returned = time.monotonic()
    if not stage.postgres.revive():
        raise NotInjectedError("PostgreSQL lived on")
    return await _after_outage(stage, began, returned)


async def freeze_postgres(stage: Stage) -> Outcome:
    """SIGSTOP of every process of PostgreSQL, and SIGCONT."""
    pids = stage.server_pids(stage.postgres)
    _strike(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(stage.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        send(signal.SIGCONT, pids)
    return await _after_outage(stage, began, returned)


async def hold_postgres(stage: Stage) -> Outcome:
    """The network to PostgreSQL swallows everything."""
    if not stage.to_postgres.connections:
        raise NotInjectedError("nobody is connected")
    stage.to_postgres.hold()
    began = time.monotonic()
    try:
        await asyncio.sleep(stage.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        stage.to_postgres.release()
    return await _after_outage(stage, began, returned)


async def _after_outage(stage: Stage, began: float, returned: float) -> Outcome:
    """Nothing is approved while it lasts, everyone is answered in time, service returns by itself."""
    normal_seconds = await stage.back()
    outcome = Outcome(normal_seconds)
    asked = [each for each in stage.crowd.history.since(began - ANSWER_SECONDS_MAX) if each.ended is not None]
    meanwhile = [each for each in asked if began + IN_FLIGHT_SECONDS < (each.ended or 0.0) < returned]
    approvals = sum(each.outcome == "ok" and each.began > began for each in meanwhile)
    outcome.expect(not approvals, f"{approvals} answers of an owner without its journal")
    waited = max(((each.ended or 0.0) - each.began for each in asked if each.response_code), default=0.0)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    if not any(each.began < returned and (each.ended or 0.0) > began for each in asked):
        raise NotInjectedError("nobody asked anything meanwhile")
    return outcome


async def slow_postgres(stage: Stage) -> Outcome:
    """Every byte to and from PostgreSQL is late."""
    stage.to_postgres.delay_seconds = stage.dice.choice((0.02, 0.1, 0.4, 1.2))
    began = time.monotonic()
    try:
        await asyncio.sleep(4.0)
    finally:
        stage.to_postgres.delay_seconds = 0.0
    return _answered_in_time(stage, began, Outcome(await stage.back()))


async def cut_postgres(stage: Stage) -> Outcome:
    """Every connection to PostgreSQL is reset, several times."""
    began = time.monotonic()
    cut = 0
    for _ in range(3):
        cut += stage.to_postgres.cut()
        await asyncio.sleep(stage.dice.uniform(0.05, 0.4))
    if not cut:
        raise NotInjectedError("nobody was connected")
    return _answered_in_time(stage, began, Outcome(await stage.back()))


async def unknown_commits(stage: Stage) -> Outcome:
    """Connections are reset between a request and its answer: nobody knows what was committed."""
    began, lost = time.monotonic(), stage.to_postgres.lost_answers
    for _ in range(3):
        stage.to_postgres.swallows_answers = True
        await asyncio.sleep(stage.dice.uniform(0.02, 0.15))
        stage.to_postgres.swallows_answers = False
        await asyncio.sleep(0.3)
    if stage.to_postgres.lost_answers == lost:
        raise NotInjectedError("no answer was lost")
    return _answered_in_time(stage, began, Outcome(await stage.back()))


def _answered_in_time(stage: Stage, began: float, outcome: Outcome) -> Outcome:
    asked = [
        each for each in stage.crowd.history.since(began) if each.ended is not None and each.response_code
    ]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    waited = max((each.ended or 0.0) - each.began for each in asked)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    return outcome


# --- Redis --------------------------------------------------------------------------------------------------


async def kill_redis(stage: Stage) -> Outcome:
    """kill -9 of Redis."""
    _strike(signal.SIGKILL, stage.server_pids(stage.redis))
    began = time.monotonic()
    await asyncio.sleep(1.5)
    if not stage.redis.revive():
        raise NotInjectedError("Redis lived on")
    return await _after_redis(stage, began)


async def freeze_redis(stage: Stage) -> Outcome:
    """SIGSTOP and SIGCONT of Redis."""
    pids = stage.server_pids(stage.redis)
    _strike(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(2.0)
    finally:
        send(signal.SIGCONT, pids)
    return await _after_redis(stage, began)


async def flush_redis(stage: Stage) -> Outcome:
    """FLUSHALL."""
    began = time.monotonic()
    async with Redis.from_url(stage.redis.url) as redis:
        await redis.flushall()
    await asyncio.sleep(1.0)
    return await _after_redis(stage, began)


async def _after_redis(stage: Stage, began: float) -> Outcome:
    asked = [each for each in stage.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    errors = sum(each.outcome != "ok" for each in asked)
    outcome = Outcome(float(errors))
    outcome.expect(not errors, f"{errors} of {len(asked)} decisions failed")
    await stage.back()
    return outcome


def _strike(number: signal.Signals, pids: Iterable[int]) -> None:
    if not send(number, pids):
        raise NotInjectedError("there was nobody to signal")


FAULTS: Final = (
    Fault("G3", "kill -9 of a shard host", "first good answer, ms", FIRST_GOOD_MS_MAX, kill_host),
    Fault("G2", "a shard host frozen and woken", "first good answer, ms", FIRST_GOOD_MS_MAX, freeze_host),
    Fault("G1", "kill -9 of all of PostgreSQL", "normal again, s", NORMAL_SECONDS_MAX, kill_postgres),
    Fault("G16", "PostgreSQL frozen", "normal again, s", NORMAL_SECONDS_MAX, freeze_postgres),
    Fault(
        "G16",
        "the way to PostgreSQL swallows everything",
        "normal again, s",
        NORMAL_SECONDS_MAX,
        hold_postgres,
    ),
    Fault("G11", "PostgreSQL slow", "normal again, s", NORMAL_SECONDS_MAX, slow_postgres),
    Fault("G16", "connections to PostgreSQL reset", "normal again, s", NORMAL_SECONDS_MAX, cut_postgres),
    Fault(
        "G16", "reset between COMMIT and its answer", "normal again, s", NORMAL_SECONDS_MAX, unknown_commits
    ),
    Fault("G15", "kill -9 of Redis", "failed decisions", 0, kill_redis),
    Fault("G15", "Redis frozen", "failed decisions", 0, freeze_redis),
    Fault("G15", "FLUSHALL", "failed decisions", 0, flush_redis),
    Fault(
        "G3",
        "kill -9 of the coordinator",
        "back, s",
        RESTART_SECONDS_MAX,
        kill_role("coordinator", noticed=False),
    ),
    Fault(
        "G3",
        "the coordinator frozen",
        "normal again, s",
        None,
        freeze_role("coordinator", 2.0, noticed=False),
    ),
    Fault("G3", "kill -9 of the edge", "back, s", RESTART_SECONDS_MAX, kill_role("edge", noticed=True)),
    Fault(
        "G11",
        "the edge frozen",
        "normal again, s",
        NORMAL_SECONDS_MAX,
        freeze_role("edge", 2.0, noticed=True),
    ),
    Fault("G7", "kill -9 of the relay", "back, s", RESTART_SECONDS_MAX, kill_role("relay", noticed=False)),
    Fault(
        "G7",
        "kill -9 of a dispatcher",
        "back, s",
        RESTART_SECONDS_MAX,
        kill_role("dispatcher-0", noticed=False),
    ),
    Fault(
        "G3", "kill -9 of the API server", "back, s", RESTART_SECONDS_MAX, kill_role("api-0", noticed=False)
    ),
    Fault("G3", "the API server frozen", "normal again, s", None, freeze_role("api-0", 2.0, noticed=False)),
    Fault(
        "G3",
        "kill -9 of the simulated network",
        "back, s",
        RESTART_SECONDS_MAX,
        kill_role("network", noticed=False),
    ),
)
