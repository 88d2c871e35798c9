"""``make chaos``: injects faults into a whole installation under load and reports which promises held.

    python -m ops.chaos [--minutes 20 | --long] [--cards 24] [--seed N] [--only WORD] [--folder DIR]

Rounds of faults, always in the same order, take half of the minutes. Then the run compares the history of all
client operations with the journal, audits the books, and searches for leaked secrets. Drills on a cluster of
several nodes, failovers and upgrades run once. The test suites that need no installation use the
remaining time for more seeds. The exit status is 0 only if every promise (with ``--only``: every chosen one)
was tried and held.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from ops.audit import Finding, audit
from ops.chaos.checks import CHECKS, promise_of
from ops.chaos.cluster.drills import DRILLS
from ops.chaos.cluster.drills import run as run_cluster
from ops.chaos.errors import NotInjectedError
from ops.chaos.failover import DRILLS as FAILOVERS
from ops.chaos.failover import run as run_failovers
from ops.chaos.faults.catalogue import ALL_FAULTS
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.leaks import find_leaks
from ops.chaos.neighbours import GREEDY
from ops.chaos.neighbours import run as run_neighbours
from ops.chaos.report import PROMISES, ChaosReport
from ops.chaos.rig import Rig
from ops.chaos.suites import SUITES, Suite
from ops.chaos.suites import run as run_suite
from ops.chaos.timetable import Timetable, long_turns
from ops.chaos.upgrades import FAULTS as UPGRADES
from ops.chaos.upgrades import RELEASES
from ops.chaos.upgrades import run as run_upgrades
from ops.histories.check import check
from ops.histories.operations import History

INJECTIONS_MAX: Final = 3
RECOVERY_ATTEMPTS: Final = 4
"""Each takes up to half a minute; if the installation has not recovered by then, the run ends."""


def main() -> None:
    """Run, print the report, and exit with status 0 only if everything held."""
    options = _options()
    # The faults cause lost connections, so the clients' log shows errors only.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="stanchion-chaos-", ignore_cleanup_errors=True) as temporary:
        folder = Path(options.folder or temporary)
        try:
            report = asyncio.run(run(folder, options))
        except (KeyboardInterrupt, asyncio.CancelledError):
            sys.exit("chaos: interrupted; everything it had started is stopped")
    report.show()
    print(f"\nFor ops/docs/GUARANTEES.md:\n\n{report.markdown()}", flush=True)
    sys.exit(0 if report.passed else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ops.chaos", description="Faults under load.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--minutes",
        type=float,
        default=20.0,
        help="approximate duration of the whole run (default 20); at least one round of everything is done,"
        " which takes about a quarter of an hour",
    )
    length.add_argument(
        "--long",
        action="store_true",
        help="the long form of every fault and suite: 200 kills of a host, 50,000 seeds and so on; takes"
        " several hours",
    )
    parser.add_argument("--cards", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument(
        "--only", default="", help="only faults and suites of this promise, or with this word in their name"
    )
    parser.add_argument(
        "--folder", default="", help="keep logs, the history and the database (servers.img) in this folder"
    )
    return parser.parse_args()


def chosen(only: str) -> tuple[list[Fault], list[Suite], list[str]]:
    """The faults and suites whose promise or name matches ``only``, and the promises that the run must show
    completely: all of them, or the one that ``only`` names."""
    faults = [fault for fault in ALL_FAULTS if _is_chosen(only, fault.promise, fault.name)]
    suites = [suite for suite in SUITES if _is_chosen(only, suite.promise, suite.name)]
    return faults, suites, [promise for promise in PROMISES if only in ("", promise)]


def _is_chosen(only: str, promise: str, name: str) -> bool:
    """``only`` is a promise (G1 does not match G12) or a part of a name."""
    return only == promise or (only not in PROMISES and only in name)


def only_checked(promises: list[str]) -> bool:
    """Whether a history without any fault can test one of ``promises``."""
    return not {promise_of(check) for check in CHECKS}.isdisjoint(promises)


async def run(folder: Path, options: argparse.Namespace) -> ChaosReport:
    """One run; returns its report."""
    running = asyncio.current_task()
    assert running is not None, "called as a task"
    # SIGTERM must stop the installation and the servers too; Ctrl-C already does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    faults, suites, promises = chosen(options.only)
    report = ChaosReport(options.seed, promises)
    report.circumstances = _circumstances(options)
    drills = [fault for fault, _ in DRILLS if _is_chosen(options.only, fault.promise, fault.name)]
    failovers = [fault for fault, _ in FAILOVERS if _is_chosen(options.only, fault.promise, fault.name)]
    upgrades = [fault for fault in UPGRADES if _is_chosen(options.only, fault.promise, fault.name)]
    neighbours = [GREEDY] if _is_chosen(options.only, GREEDY.promise, GREEDY.name) else []
    others = (*drills, *failovers, *upgrades, *neighbours)
    timetable = Timetable(options.minutes, shared=bool(others or suites))
    for fault in (*faults, *others, *(suite.fault for suite in suites)):
        report.wants(fault)
    if faults or only_checked(promises):
        try:
            await _inject(faults, folder, options, timetable, report)
        except Exception as failure:  # noqa: BLE001 - earlier results are still reported
            report.ended_early(f"{type(failure).__name__}: {failure}")
    if drills:
        try:
            await run_cluster(folder, options.cards, options.seed, report)
        except Exception as failure:  # noqa: BLE001 - as above
            report.ended_early(f"on a cluster: {type(failure).__name__}: {failure}")
    if failovers:
        try:
            await run_failovers(folder, options.cards, options.seed, report, failovers)
        except Exception as failure:  # noqa: BLE001 - as above
            report.ended_early(f"at a failover: {type(failure).__name__}: {failure}")
    if upgrades:
        try:
            commits = [each for each in RELEASES if any(each in fault.name for fault in upgrades)]
            await run_upgrades(folder, options.cards, options.seed, report, commits)
        except Exception as failure:  # noqa: BLE001 - as above
            report.ended_early(f"at an upgrade: {type(failure).__name__}: {failure}")
    if neighbours:
        await _neighbours(folder, report)
    # Suites with seeds run last and use the remaining time.
    suites.sort(key=lambda suite: suite.seeds_per_minute > 0)
    for number, suite in enumerate(suites):
        minutes = None if options.long else timetable.seeds_minutes(len(suites) - number)
        await _suite(suite, minutes, report)
    return report


async def _inject(
    faults: list[Fault], folder: Path, options: argparse.Namespace, timetable: Timetable, report: ChaosReport
) -> None:
    """All rounds on one installation, then the checks of its history and books."""
    async with Rig(folder, options.cards, options.seed) as rig:
        await rig.begin()
        await asyncio.sleep(2.0)
        if not faults:
            await asyncio.sleep(max(0.0, timetable.faults_seconds()))
        turns: Iterable[Fault] = long_turns(faults) if options.long else timetable.turns(faults)
        for fault in turns:
            if not await _round(rig, fault, report):
                report.ended_early(f"the installation did not recover after {fault.name}")
                break
        await rig.end()
        report.operations = len(rig.operations)
        History(rig.operations).save(folder / "history.jsonl")
        for finding in await _findings(rig):
            report.found(finding)


async def _neighbours(folder: Path, report: ChaosReport) -> None:
    """Measure one tenant beside a greedy one, on an installation of its own."""
    _say(GREEDY.promise, GREEDY.name)
    try:
        outcome = await run_neighbours(folder)
    except NotInjectedError as reason:
        report.not_injected(GREEDY, str(reason))
        print(f"not run: {reason}", flush=True)
    else:
        report.injected(GREEDY, outcome)
        print(f"{outcome.figure:.2f} ({GREEDY.unit})", *outcome.broken, flush=True)


async def _suite(suite: Suite, minutes: float | None, report: ChaosReport) -> None:
    """Run one suite of tests: with as many seeds as fit into ``minutes``, or in its long form."""
    _say(suite.promise, suite.name)
    try:
        outcome = await run_suite(suite, minutes)
    except NotInjectedError as reason:
        report.not_injected(suite.fault, str(reason))
        print(f"not run: {reason}", flush=True)
    else:
        report.injected(suite.fault, outcome)
        print(f"{outcome.figure:.0f} passed", *outcome.broken, flush=True)


async def _round(rig: Rig, fault: Fault, report: ChaosReport) -> bool:
    """Inject one fault; returns whether the installation recovered."""
    _say(fault.promise, fault.name)
    try:
        outcome = await _attempt(rig, fault)
        await rig.recovered()
        report.injected(fault, outcome)
        print(f"{outcome.figure:.2f} ({fault.unit})", *outcome.broken, flush=True)
    except NotInjectedError as reason:
        report.not_injected(fault, str(reason))
        print(f"not injected: {reason}", flush=True)
    except Exception as failure:  # noqa: BLE001 - one failed fault must not hide the other results
        report.failed(fault, f"{type(failure).__name__}: {failure}")
        print(f"FAILED: {type(failure).__name__}: {failure}", flush=True)
    await asyncio.sleep(rig.dice.uniform(0.5, 1.5))
    return await _wait_recovered(rig)


async def _attempt(rig: Rig, fault: Fault) -> Outcome:
    """Inject ``fault``. Some faults need a moment that comes by chance, so there are several attempts. Raises
    NotInjectedError after the last one."""
    assert fault.inject is not None, "_suite runs the suites"
    for _ in range(INJECTIONS_MAX - 1):
        with suppress(NotInjectedError):
            return await fault.inject(rig)
        await rig.recovered()
    return await fault.inject(rig)


async def _wait_recovered(rig: Rig) -> bool:
    for _ in range(RECOVERY_ATTEMPTS):
        try:
            await rig.recovered()
        except Exception as failure:  # noqa: BLE001 - any failure means: not recovered yet
            print(f"         not recovered yet: {type(failure).__name__}: {failure}", flush=True)
        else:
            return True
    return False


async def _findings(rig: Rig) -> list[Finding]:
    async with rig.connection() as connection:
        return [
            *await check(connection, rig.operations),
            *await rig.receiver.findings(connection),
            *await rig.callers.findings(connection),
            *await find_leaks(rig, connection),
            *await audit(rig.postgres.url),
        ]


def _circumstances(options: argparse.Namespace) -> str:
    """The machine and the options of the run, for the report."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({model or 'unknown'}), load average {load:.1f} before the run,"
        f" {'--long' if options.long else f'{options.minutes:g} minutes'}, {options.cards} shoppers"
    )


def _say(promise: str, name: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {promise:4} {name}", end=" ", flush=True)


if __name__ == "__main__":
    main()
