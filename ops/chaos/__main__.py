"""``make chaos``: the whole installation under faults for a while, and a table of what held.

    python -m ops.chaos [--minutes 20 | --long] [--cards 24] [--seed N] [--only WORD] [--folder DIR]

Faults come in rounds, in the same order, for half of the minutes; then the whole history is compared with the
journal, the books are audited and secrets looked for. Nodes come and go on a cluster of several (once), and
the tests that need no installation run, with as many seeds as there is time left for. The exit status is 0
only if all twenty promises (with ``--only``, those that were chosen) were tried and every row of the table
held.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from ops.audit import Finding, audit
from ops.chaos.checks import CHECKS, promise_of
from ops.chaos.cluster import DRILLS
from ops.chaos.cluster import run as run_cluster
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.catalogue import ALL_FAULTS
from ops.chaos.faults.fault import Fault
from ops.chaos.leaks import find_leaks
from ops.chaos.report import PROMISES, ChaosReport
from ops.chaos.rig import Rig
from ops.chaos.suites import SUITES, Suite
from ops.chaos.suites import run as run_suite
from ops.chaos.timetable import Timetable, long_turns
from ops.histories.check import check
from ops.histories.operations import History

WHOLE_AGAIN_ATTEMPTS: Final = 4
"""Each for half a minute; an installation that is not whole by then ends the run."""


def main() -> None:
    """Run, print, and say by the exit status whether everything held."""
    options = _options()
    # Lost connections are what this is about.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="stanchion-chaos-", ignore_cleanup_errors=True) as temporary:
        folder = Path(options.folder or temporary)
        report = asyncio.run(run(folder, options))
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
        help="about how long the whole run takes (default 20); one round of everything is done in any case,"
        " which takes about a quarter of an hour",
    )
    length.add_argument(
        "--long",
        action="store_true",
        help="every fault and every suite as often as its long form wants: 200 kills of a host, 50,000 seeds"
        " and so on, for several hours",
    )
    parser.add_argument("--cards", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", default="", help="faults whose promise or name holds this")
    parser.add_argument(
        "--folder", default="", help="kept afterwards: logs, the history, the database in servers.img"
    )
    return parser.parse_args()


def chosen(only: str) -> tuple[list[Fault], list[Suite], list[str]]:
    """The faults and suites whose promise or name holds ``only``, and the promises that must be shown as a
    whole: all of them, or the one that was named."""
    faults = [fault for fault in ALL_FAULTS if _is_chosen(only, fault.promise, fault.name)]
    suites = [suite for suite in SUITES if _is_chosen(only, suite.promise, suite.name)]
    return faults, suites, [promise for promise in PROMISES if only in ("", promise)]


def _is_chosen(only: str, promise: str, name: str) -> bool:
    """A promise is chosen as a whole: G1 is not G12."""
    return only == promise or (only not in PROMISES and only in name)


def only_checked(promises: list[str]) -> bool:
    """Whether a history under no fault at all has something to say of ``promises``."""
    return not {promise_of(check) for check in CHECKS}.isdisjoint(promises)


async def run(folder: Path, options: argparse.Namespace) -> ChaosReport:
    """One run; its report."""
    faults, suites, promises = chosen(options.only)
    report = ChaosReport(options.seed, promises)
    report.circumstances = _circumstances(options)
    drills = [fault for fault, _ in DRILLS if _is_chosen(options.only, fault.promise, fault.name)]
    timetable = Timetable(options.minutes, shared=bool(drills or suites))
    for fault in (*faults, *drills, *(suite.fault for suite in suites)):
        report.wants(fault)
    if faults or only_checked(promises):
        try:
            await _inject(faults, folder, options, timetable, report)
        except Exception as failure:  # noqa: BLE001 - what was found until then is to be read all the same
            report.ended_early(f"{type(failure).__name__}: {failure}")
    if drills:
        try:
            await run_cluster(folder, options.cards, options.seed, report)
        except Exception as failure:  # noqa: BLE001 - as above
            report.ended_early(f"on a cluster: {type(failure).__name__}: {failure}")
    # Those that take seeds take the time that the others leave.
    suites.sort(key=lambda suite: suite.seeds_per_minute > 0)
    for number, suite in enumerate(suites):
        minutes = None if options.long else timetable.seeds_minutes(len(suites) - number)
        await _suite(suite, minutes, report)
    return report


async def _inject(
    faults: list[Fault], folder: Path, options: argparse.Namespace, timetable: Timetable, report: ChaosReport
) -> None:
    """All rounds on one installation, and what its history and its books say in the end."""
    async with Rig(folder, options.cards, options.seed) as rig:
        await rig.begin()
        await asyncio.sleep(2.0)
        if not faults:
            await asyncio.sleep(max(0.0, timetable.faults_seconds()))
        turns: Iterable[Fault] = long_turns(faults) if options.long else timetable.turns(faults)
        for fault in turns:
            if not await _round(rig, fault, report):
                report.ended_early(f"the installation is not whole after {fault.name}")
                break
        await rig.end()
        report.operations = len(rig.operations)
        History(rig.operations).save(folder / "history.jsonl")
        for finding in await _findings(rig):
            report.found(finding)


async def _suite(suite: Suite, minutes: float | None, report: ChaosReport) -> None:
    """One suite of tests, with as many seeds as fit into ``minutes``, or in its longest form."""
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
    """One fault; whether the installation was whole again afterwards."""
    _say(fault.promise, fault.name)
    try:
        assert fault.inject is not None, "suites are run elsewhere"
        outcome = await fault.inject(rig)
        await rig.back()
        report.injected(fault, outcome)
        print(f"{outcome.figure:.2f} ({fault.unit})", *outcome.broken, flush=True)
    except NotInjectedError as reason:
        report.not_injected(fault, str(reason))
        print(f"not injected: {reason}", flush=True)
    except Exception as failure:  # noqa: BLE001 - one fault that went wrong must not hide what the others show
        report.failed(fault, f"{type(failure).__name__}: {failure}")
        print(f"FAILED: {type(failure).__name__}: {failure}", flush=True)
    await asyncio.sleep(rig.dice.uniform(0.5, 1.5))
    return await _whole_again(rig)


async def _whole_again(rig: Rig) -> bool:
    for _ in range(WHOLE_AGAIN_ATTEMPTS):
        try:
            await rig.back()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is not whole yet
            print(f"         not whole yet: {type(failure).__name__}: {failure}", flush=True)
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
    """The machine and the run, in a few words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({model or 'unknown'}) at a load of {load:.1f} before it began,"
        f" {'--long' if options.long else f'{options.minutes:g} minutes'}, {options.cards} shoppers"
    )


def _say(promise: str, name: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {promise:4} {name}", end=" ", flush=True)


if __name__ == "__main__":
    main()
