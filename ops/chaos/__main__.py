"""``make chaos``: the whole installation under faults for a while, and a table of what held.

    python -m ops.chaos [--minutes 20] [--cards 24] [--seed N] [--only WORD] [--folder DIR]

Faults come in rounds, in the same order, until the time is over; then the whole history is compared with the
journal and the books are audited, and the tests that need no installation run with more seeds. The exit
status is 0 only if every row of the table passes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import structlog

from ops.audit import Finding, audit
from ops.chaos.crowds import TOO_MANY
from ops.chaos.faults import FAULTS, Fault
from ops.chaos.report import Report
from ops.chaos.stage import NotInjectedError, Stage
from ops.chaos.suites import SUITES, Suite
from ops.chaos.suites import run as run_suite
from ops.histories.check import check


def main() -> None:
    """Run, print, and say by the exit status whether everything held."""
    options = _options()
    # Lost connections are what this is about.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="stanchion-chaos-") as temporary:
        folder = Path(options.folder or temporary)
        report = asyncio.run(run(folder, options))
    report.show()
    sys.exit(0 if report.passed else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ops.chaos", description="Faults under load.")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long faults are injected")
    parser.add_argument("--cards", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", default="", help="faults whose promise or name holds this")
    parser.add_argument("--folder", default="", help="kept afterwards: logs, the database, the history")
    return parser.parse_args()


async def run(folder: Path, options: argparse.Namespace) -> Report:
    """One run; its report."""
    faults = [fault for fault in (*FAULTS, *TOO_MANY) if options.only in f"{fault.promise} {fault.name}"]
    report = Report(options.seed)
    if faults:
        await _inject(faults, folder, options, report)
    for suite in SUITES:
        if options.only in f"{suite.promise} {suite.name}":
            await _suite(suite, options.minutes, report)
    return report


async def _inject(faults: list[Fault], folder: Path, options: argparse.Namespace, report: Report) -> None:
    """All rounds on one installation, and what its history and its books say in the end."""
    async with Stage(folder, options.cards, options.seed) as stage:
        await stage.crowd.begin()
        await asyncio.sleep(2.0)
        deadline = time.monotonic() + 60 * options.minutes
        rounds = 0
        while time.monotonic() < deadline or not rounds:
            for fault in faults:
                if rounds and time.monotonic() > deadline:
                    break
                await _round(stage, fault, report)
            rounds += 1
        await stage.crowd.end()
        report.operations = len(stage.crowd.history.operations)
        stage.crowd.history.save(folder / "history.jsonl")
        for finding in await _findings(stage):
            report.found(finding)


async def _suite(suite: Suite, minutes: float, report: Report) -> None:
    """One suite of tests, in its long form."""
    print(f"{time.strftime('%H:%M:%S')} {suite.promise:4} {suite.name}", end=" ", flush=True)
    try:
        outcome = await run_suite(suite, minutes)
    except NotInjectedError as reason:
        report.not_injected(suite.fault, str(reason))
        print(f"not run: {reason}", flush=True)
    else:
        report.injected(suite.fault, outcome)
        print(f"{outcome.figure:.0f} passed", *outcome.broken, flush=True)


async def _round(stage: Stage, fault: Fault, report: Report) -> None:
    """One fault; whatever comes of it, the installation must be whole again before the next one."""
    print(f"{time.strftime('%H:%M:%S')} {fault.promise:4} {fault.name}", end=" ", flush=True)
    try:
        assert fault.inject is not None, "suites are run elsewhere"
        outcome = await fault.inject(stage)
        await stage.back()
        report.injected(fault, outcome)
        print(f"{outcome.figure:.2f} ({fault.unit})", *outcome.broken, flush=True)
    except NotInjectedError as reason:
        report.not_injected(fault, str(reason))
        print(f"not injected: {reason}", flush=True)
    except TimeoutError as reason:
        report.failed(fault, str(reason))
        print(f"FAILED: {reason}", flush=True)
        await stage.back()
    await asyncio.sleep(stage.dice.uniform(0.5, 1.5))


async def _findings(stage: Stage) -> list[Finding]:
    connection = await asyncpg.connect(stage.postgres.url)
    try:
        return [
            *await check(connection, stage.crowd.history),
            *await stage.receiver.findings(connection),
            *await audit(stage.postgres.url),
        ]
    finally:
        await connection.close(timeout=10)


if __name__ == "__main__":
    main()
