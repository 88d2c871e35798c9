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

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.errors import NotInjectedError
from ops.chaos.processes import gone, send
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


def freeze_role(role: str, seconds: float, *, noticed: bool) -> Inject:
    """SIGSTOP and SIGCONT of a role."""

    async def inject(stage: Stage) -> Outcome:
        pid = await stage.pid_of(role)
        began = time.monotonic()
        strike(signal.SIGSTOP, [pid])
        try:
            await asyncio.sleep(seconds)
        finally:
            send(signal.SIGCONT, [pid])
        outcome = Outcome(0.0)
        if not noticed:
            expect_unnoticed(stage, began, outcome)
        outcome.expect(not gone(pid), f"{role} died of it")
        outcome.figure = await stage.back()
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
        "G3", "the coordinator frozen", "s until normal", None, freeze_role("coordinator", 2.0, noticed=False)
    ),
    Fault(
        "G3",
        "kill -9 of the edge",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("edge", noticed=True),
    ),
    Fault(
        "G11", "the edge frozen", "s until normal", NORMAL_SECONDS_MAX, freeze_role("edge", 2.0, noticed=True)
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
    Fault("G3", "the API server frozen", "s until normal", None, freeze_role("api-0", 2.0, noticed=False)),
    Fault(
        "G3",
        "kill -9 of the simulated network",
        "s until it is back",
        RESTART_SECONDS_MAX,
        kill_role("network", noticed=False),
    ),
)
