"""Processes of the installation and servers of Ray that are killed or frozen."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from engine.limits import READY_SECONDS, ROLE_REPLACED_SECONDS
from ops.chaos.environment.processes import (
    descendants_named,
    leading_coordinator,
    send_signal,
    signal_processes,
)
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_unnoticed
from ops.chaos.faults.fault import (
    ANSWER_SECONDS_MAX,
    NORMAL_SECONDS_MAX,
    RESTART_SECONDS_MAX,
    Fault,
    Inject,
    Outcome,
)
from ops.chaos.rig import HOSTS, Rig
from ops.histories.operations import Operation
from ops.supervision.log_tail import LogTail

FIRST_GOOD_MS_MAX: Final = 500.0
LEADERLESS_MS_MAX: Final = 1500.0
"""The other coordinator has to lead before it can have the shards taken."""
ONCE_SECONDS_MAX: Final = 5.0
"""For the relay and the simulated network, which exist once."""
OLD_OWNER_SECONDS_MAX: Final = 2.0
FROZEN_SECONDS_MAX: Final = 10.0
"""Ray gives a process five seconds to end before it kills it."""
LOSS_SEEN_SECONDS: Final = 0.05
"""After this a terminal has seen that its connection is lost."""
UNSENT: Final = 4
NOTICED_SECONDS_MAX: Final = 2.0


# --- shard hosts --------------------------------------------------------------------------------------------


async def kill_host(rig: Rig) -> Outcome:
    """kill -9. Figure: time until its cards are answered again."""
    name, pid = await rig.serving_host()
    terminals = rig.terminals_of(await rig.shards_of(name))
    signal_processes(signal.SIGKILL, [pid])
    began = time.monotonic()
    return _first_good(await rig.spend_at_once(terminals), began)


async def freeze_host(rig: Rig) -> Outcome:
    """SIGSTOP, later SIGCONT. Figure: time until its cards are answered. When resumed, it must end without a
    commit."""
    name, pid = await rig.serving_host()
    terminals = rig.terminals_of(await rig.shards_of(name))
    signal_processes(signal.SIGSTOP, [pid])
    began = time.monotonic()
    try:
        outcome = _first_good(await rig.spend_at_once(terminals), began)
    finally:
        send_signal(signal.SIGCONT, [pid])
    try:
        await rig.ended(pid, OLD_OWNER_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("the old owner did not end")
    return outcome


async def kill_host_with_coordinator(rig: Rig) -> Outcome:
    """kill -9 of the coordinator that leads and, in the same moment, of a shard host. Figure: time until the
    last of the host's cards is answered."""
    leader = await asyncio.to_thread(leading_coordinator, rig.record["metrics_url"])
    name, pid = await rig.serving_host()
    terminals = rig.terminals_of(await rig.shards_of(name))
    signal_processes(signal.SIGKILL, [await rig.pid_of(leader), pid])
    began = time.monotonic()
    operations = await rig.spend_at_once(terminals)
    waits = [1000 * ((each.ended or 0.0) - began) for each in operations if each.outcome == "ok"]
    if not waits:
        raise NotInjectedError("the host owned no card, or no card was answered")
    outcome = Outcome(max(waits))
    outcome.expect(len(waits) == len(operations), "a card was not answered")
    await rig.until(rig.complete, "the installation is complete", RESTART_SECONDS_MAX)
    return outcome


def _first_good(operations: list[Operation], began: float) -> Outcome:
    waits = sorted(1000 * ((each.ended or 0.0) - began) for each in operations if each.outcome == "ok")
    if not waits:
        raise NotInjectedError("the host owned no card, or no card was answered")
    outcome = Outcome(waits[0])
    outcome.expect(len(waits) == len(operations), "a card was not answered")
    outcome.expect(waits[-1] <= 1000 * ANSWER_SECONDS_MAX, f"a card waited for {waits[-1]:.0f} ms")
    return outcome


# --- other processes ----------------------------------------------------------------------------------------


async def _purchase_unsent(rig: Rig) -> None:
    """One purchase at each of some terminals that is given up if there is no connection."""
    await asyncio.sleep(LOSS_SEEN_SECONDS)
    terminals = rig.terminals_of(range(256))[:UNSENT]
    await asyncio.gather(*(terminal.purchase(repeats=0, patience_seconds=0.0) for terminal in terminals))


def kill_role(role: str, *, noticed: bool) -> Inject:
    """kill -9 of a role. Unless ``noticed``, no decision may fail; otherwise terminals also ask for purchases
    that cannot be sent while the role is away."""

    async def inject(rig: Rig) -> Outcome:
        pid = await rig.pid_of(role)
        started = _watch_start(rig, role)
        began = time.monotonic()
        signal_processes(signal.SIGKILL, [pid])

        async def again() -> bool:
            return (await rig.processes()).get(role, pid) != pid

        if noticed:
            await _purchase_unsent(rig)
        await rig.until(started, f"{role} starts again", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        await rig.until(again, f"{role} serves again", RESTART_SECONDS_MAX)
        if not noticed:
            expect_unnoticed(rig, began, outcome)
        return outcome

    return inject


def freeze_role(role: str, *, noticed: bool) -> Inject:
    """SIGSTOP of a role, permanently. Figure: time until its successor serves."""

    async def inject(rig: Rig) -> Outcome:
        pid = await rig.pid_of(role)
        began = time.monotonic()

        async def again() -> bool:
            return (await rig.processes()).get(role, pid) != pid and await rig.ready()

        outcome = await _replaced(rig, pid, _watch_start(rig, role))
        await rig.until(again, "the installation is ready", RESTART_SECONDS_MAX)
        if not noticed:
            expect_unnoticed(rig, began, outcome)
        return outcome

    return inject


def _watch_start(rig: Rig, role: str) -> Callable[[], bool]:
    """Whether the log has reported a start of ``role`` since this call. The metrics page would report it up
    to two seconds later: its scrapes wait for processes that do not answer."""
    tail = LogTail(rig.var_dir)
    marks = ('"event":"started"', f'"process":"{role}"')
    return lambda: any(all(mark in line for mark in marks) for line in tail.lines())


async def freeze_host_for_good(rig: Rig) -> Outcome:
    """SIGSTOP of a shard host, permanently. Figure: time until there are as many hosts as before, and all are
    ready."""
    name, pid = await rig.serving_host()

    async def again() -> bool:
        found = await rig.hosts()
        return name not in found and len(found) == HOSTS and await rig.ready()

    return await _replaced(rig, pid, again)


async def _replaced(rig: Rig, pid: int, again: Callable[[], Any]) -> Outcome:
    """Stop a process permanently. Figure: time until ``again`` holds."""
    signal_processes(signal.SIGSTOP, [pid])
    began = time.monotonic()
    unready = asyncio.create_task(rig.wait_unready())
    try:
        await rig.until(again, "the frozen process is replaced", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        # A check that began while the process was frozen answers within its own limit.
        await asyncio.wait({unready}, timeout=READY_SECONDS)
        outcome.expect(unready.done(), "/readyz always reported ready")
    finally:
        unready.cancel()
    try:
        await rig.ended(pid, FROZEN_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("the frozen process still exists")
    return outcome


# --- Ray ----------------------------------------------------------------------------------------------------


def kill_ray(server: str) -> Inject:
    """kill -9 of a Ray server, then of a shard host, which Ray cannot replace. Figure: time until the
    installation is complete again without help."""

    async def inject(rig: Rig) -> Outcome:
        supervisor = rig.installation.pid
        if supervisor is None:
            raise NotInjectedError("the installation is not complete")
        _, host = await rig.serving_host()
        signal_processes(signal.SIGKILL, descendants_named(server, supervisor))
        began = time.monotonic()
        signal_processes(signal.SIGKILL, [host])
        await rig.until(rig.unready, f"the death of {server} is noticed", RESTART_SECONDS_MAX)
        noticed = time.monotonic() - began
        await rig.until(rig.complete, "the installation is complete", RESTART_SECONDS_MAX)
        outcome = Outcome(time.monotonic() - began)
        outcome.expect(noticed <= NOTICED_SECONDS_MAX, f"/readyz reported it only after {noticed:.1f} s")
        outcome.expect(rig.installation.pid == supervisor, "the supervisor has ended")
        return outcome

    return inject


_FROZEN: Final = (
    ("the coordinator", "coordinator", False),
    ("the edge", "edge", True),
    ("the API server", "api-0", False),
    ("the simulated network", "network", False),
    ("the relay", "relay", False),
    ("a dispatcher", "dispatcher-0", False),
)
"""Roles, and whether decisions may fail when they freeze."""

PROCESS_FAULTS: Final = (
    Fault("G3", "kill -9 of a shard host", "ms to the first good answer", FIRST_GOOD_MS_MAX, kill_host),
    Fault(
        "G3",
        "kill -9 of the leading coordinator with a shard host",
        "ms until the last card is answered",
        LEADERLESS_MS_MAX,
        kill_host_with_coordinator,
    ),
    Fault(
        "G2",
        "a shard host frozen, then resumed",
        "ms to the first good answer",
        FIRST_GOOD_MS_MAX,
        freeze_host,
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
        ONCE_SECONDS_MAX,
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
        ONCE_SECONDS_MAX,
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
            "s until recovered",
            NORMAL_SECONDS_MAX,
            kill_ray(server),
        )
        for server in ("raylet", "gcs_server")
    ),
)
