"""The faults: each is injected under load, measured, and taken away again.

A fault that could not be injected shows nothing, and one during which nobody asked anything shows nothing
either; both are said, never passed over.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.limits import AUTHORIZATION_DEADLINE_MS, ROLE_REPLACED_SECONDS
from ops.chaos.errors import NotInjectedError
from ops.chaos.processes import called, send
from ops.chaos.stage import Stage
from ops.histories.operations import Operation

FIRST_GOOD_MS_MAX: Final = 500.0
OLD_OWNER_SECONDS_MAX: Final = 2.0
ANSWER_SECONDS_MAX: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 1
"""The deadline of an authorization and one second."""
NORMAL_SECONDS_MAX: Final = 15.0
RESTART_SECONDS_MAX: Final = 60.0
"""A process of Python and Ray takes seconds to start, many of them on a machine that is busy; nothing waits
for it but its own work."""
FROZEN_SECONDS_MAX: Final = 10.0
"""Ray gives a process that it kills five seconds to end by itself."""
NOTICED_SECONDS_MAX: Final = 2.0
IN_FLIGHT_SECONDS: Final = 0.15
"""What was committed when the fault began may still be told for so long."""


@dataclass
class Outcome:
    """What one round has shown."""

    figure: float
    """The worst that was measured, in the fault's own unit."""
    broken: list[str] = field(default_factory=list)
    rounds: int = 1
    """How often it was tried in one go."""

    def expect(self, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.broken.append(what)


Inject = Callable[[Stage], Awaitable[Outcome]]


@dataclass(frozen=True)
class Fault:
    """One row of the table; ``limit`` is what its figure may be at most, or where ``least`` is set, at
    least."""

    promise: str
    name: str
    unit: str
    limit: float | None
    inject: Inject | None = None
    """Absent where nothing is done to an installation."""
    least: bool = False


# --- shard hosts --------------------------------------------------------------------------------------------


async def kill_host(stage: Stage) -> Outcome:
    """kill -9: how soon its cards are answered again."""
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = stage.dice.choice(sorted(hosts))
    tills = stage.tills_of(await stage.shards_of(name))
    strike(signal.SIGKILL, [hosts[name]])
    began = time.monotonic()
    return _first_good(await stage.spend_at_once(tills), began)


async def freeze_host(stage: Stage) -> Outcome:
    """SIGSTOP: how soon its cards are answered, and that it ends, without a commit, when it wakes up."""
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = stage.dice.choice(sorted(hosts))
    pid, tills = hosts[name], stage.tills_of(await stage.shards_of(name))
    strike(signal.SIGSTOP, [pid])
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
        strike(signal.SIGKILL, [pid])

        async def again() -> bool:
            return (await stage.processes()).get(role, pid) != pid

        await stage.until(again, f"{role} serves again", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        if not noticed:
            expect_unnoticed(stage, began, outcome)
        return outcome

    return inject


def freeze_role(role: str, *, noticed: bool) -> Inject:
    """SIGSTOP of a role for good: how soon its successor serves."""

    async def inject(stage: Stage) -> Outcome:
        pid = await stage.pid_of(role)
        began = time.monotonic()

        async def again() -> bool:
            return (await stage.processes()).get(role, pid) != pid and await stage.ready()

        outcome = await _replaced(stage, pid, again)
        if not noticed:
            expect_unnoticed(stage, began, outcome)
        return outcome

    return inject


async def freeze_host_for_good(stage: Stage) -> Outcome:
    """SIGSTOP of a shard host for good: how soon there are as many hosts as before, and all are ready."""
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    name = stage.dice.choice(sorted(hosts))

    async def again() -> bool:
        found = await stage.hosts()
        return name not in found and len(found) == len(hosts) and await stage.ready()

    return await _replaced(stage, hosts[name], again)


async def _replaced(stage: Stage, pid: int, again: Callable[[], Awaitable[bool]]) -> Outcome:
    """Stop a process for good; the figure is the time until ``again`` holds."""
    strike(signal.SIGSTOP, [pid])
    began = time.monotonic()
    noticing = asyncio.create_task(stage.not_ready())
    try:
        await stage.until(again, "the frozen process is replaced", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        outcome.expect(noticing.done(), "/readyz said ready all the time")
    finally:
        noticing.cancel()
    try:
        await stage.ended(pid, FROZEN_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("the frozen process is still there")
    return outcome


# --- Ray ----------------------------------------------------------------------------------------------------


def kill_ray(server: str) -> Inject:
    """kill -9 of a server of Ray, and then of a shard host, which Ray cannot replace: how soon the
    installation is whole again by itself."""

    async def inject(stage: Stage) -> Outcome:
        supervisor, hosts = stage.installation.pid, await stage.hosts()
        if supervisor is None or not hosts:
            raise NotInjectedError("the installation is not whole")
        strike(signal.SIGKILL, called(server, supervisor))
        began = time.monotonic()
        strike(signal.SIGKILL, [hosts[stage.dice.choice(sorted(hosts))]])
        await stage.until(stage.unready, f"the death of {server} is noticed", RESTART_SECONDS_MAX)
        noticed = time.monotonic() - began
        await stage.until(stage.whole, "the installation is whole", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        outcome.expect(noticed <= NOTICED_SECONDS_MAX, f"it was noticed after {noticed:.1f} s")
        outcome.expect(stage.installation.pid == supervisor, "the supervisor has ended")
        return outcome

    return inject


def expect_unnoticed(stage: Stage, began: float, outcome: Outcome) -> None:
    """Decisions did not notice."""
    asked = [each for each in stage.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    errors = [each for each in asked if each.outcome != "ok"]
    outcome.expect(not errors, f"{len(errors)} of {len(asked)} decisions noticed{_heard(errors)}")


def _heard(errors: Sequence[Operation]) -> str:
    """What came of them: `` (91 × 3, no answer × 1, after up to 2.0 s)``."""
    if not errors:
        return ""
    answers = Counter(each.response_code or "no answer" for each in errors)
    said = ", ".join(f"{answer} × {times}" for answer, times in answers.most_common())
    longest = max((each.ended or each.began) - each.began for each in errors)
    return f" ({said}, after up to {longest:.1f} s)"


def strike(number: signal.Signals, pids: Iterable[int]) -> None:
    """Signal these. Raises NotInjectedError when none of them is there."""
    if not send(number, pids):
        raise NotInjectedError("there was nobody to signal")


_FROZEN: Final = (
    ("the coordinator", "coordinator", False),
    ("the edge", "edge", True),
    ("the API server", "api-0", False),
    ("the simulated network", "network", False),
    ("the relay", "relay", False),
    ("a dispatcher", "dispatcher-0", False),
)
"""Roles, and whether decisions may notice."""

FAULTS: Final = (
    Fault("G3", "kill -9 of a shard host", "ms to the first good answer", FIRST_GOOD_MS_MAX, kill_host),
    Fault(
        "G2", "a shard host frozen and woken", "ms to the first good answer", FIRST_GOOD_MS_MAX, freeze_host
    ),
    Fault(
        "G3",
        "kill -9 of the coordinator",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("coordinator", noticed=False),
    ),
    Fault(
        "G3",
        "kill -9 of the edge",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("edge", noticed=True),
    ),
    Fault(
        "G7",
        "kill -9 of the relay",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("relay", noticed=False),
    ),
    Fault(
        "G7",
        "kill -9 of a dispatcher",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("dispatcher-0", noticed=False),
    ),
    Fault(
        "G3",
        "kill -9 of the API server",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("api-0", noticed=False),
    ),
    Fault(
        "G3",
        "kill -9 of the simulated network",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("network", noticed=False),
    ),
    Fault(
        "G3",
        "a shard host frozen for good",
        "s until it is replaced",
        ROLE_REPLACED_SECONDS,
        freeze_host_for_good,
    ),
    *(
        Fault(
            "G3",
            f"{words} frozen for good",
            "s until it is replaced",
            ROLE_REPLACED_SECONDS,
            freeze_role(role, noticed=noticed),
        )
        for words, role, noticed in _FROZEN
    ),
    *(
        Fault(
            "G3",
            f"kill -9 of Ray's {server}, then of a shard host",
            "s until all is whole",
            NORMAL_SECONDS_MAX,
            kill_ray(server),
        )
        for server in ("raylet", "gcs_server")
    ),
)
