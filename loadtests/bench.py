"""The benchmark: `make bench`, or `python -m loadtests.bench --help`.

It starts an installation of its own, loads it and the rival in short slices in turn (A B A B …), prints a
report, and stops everything it has started. Nothing of it is a test: figures depend on the machine and on who
else uses it, which is why the report says how busy strangers were.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from loadtests.children import ChildError
from loadtests.figures import Slice
from loadtests.http import HttpError
from loadtests.machine import fsync_ms, machine
from loadtests.report import Report
from loadtests.rest import held_minor
from loadtests.slices import OURS, idle_cpu, measure
from loadtests.stage import Plan, Stage
from loadtests.workload import AMOUNT_MINOR
from loadtests.workloads import WORKLOADS, Workload

WARM_SECONDS = 0.5
IDLE_SECONDS = 3.0
PRIMING_SECONDS = 1.5
DRAIN_SECONDS_MAX = 15.0
STAND_IN_CARDS = 300

_EPILOG = """
workloads:
{workloads}

how it measures:
  Latencies of open loops count from the instant at which a request was due. Server CPU is all processes of
  the system (actors, Ray, PostgreSQL, Redis, supervisor) from /proc; the generator is counted beside it. In
  the router's workloads the router runs inside the generator. Simulated spends are counted by the hosts and
  timed by the records of a sample. The rival ("row locks") decides with the same engine and writes the same
  rows to the same PostgreSQL, one SELECT ... FOR UPDATE transaction for each decision, behind the same edge.
"""


def arguments() -> argparse.Namespace:
    """The command line."""
    epilog = _EPILOG.format(workloads="\n".join(f"  {each.name:<11} {each.title}" for each in WORKLOADS))
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench",
        description="Measure decisions per second, latency and CPU, ours and a row-locking rival's in turn.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=positive, default=3.0, help="measured length of a slice [%(default)s]"
    )
    parser.add_argument(
        "--rounds", type=count, default=3, help="slices of each workload and system [%(default)s]"
    )
    parser.add_argument("--only", default="", metavar="NAME,…", help="these workloads alone")
    parser.add_argument("--cards", type=count, default=Plan().cards, help="cards to draw from [%(default)s]")
    parser.add_argument(
        "--rival-processes", type=count, default=Plan().rival_processes, help="its processes [%(default)s]"
    )
    parser.add_argument(
        "--rival-connections",
        type=count,
        default=Plan().rival_connections,
        help="its database connections, over all processes [%(default)s]",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, single slices too, here")
    return parser.parse_args()


def positive(text: str) -> float:
    """A number above zero."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def count(text: str) -> int:
    """A whole number from one on."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def chosen(names: str) -> list[Workload]:
    """The workloads in ``names`` (comma-separated); all of them when it is empty. Raises ValueError."""
    known = {each.name: each for each in WORKLOADS}
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"no such workload: {', '.join(unknown)}; known are {', '.join(known)}")
    return [known[name] for name in wanted] or list(WORKLOADS)


async def run(options: argparse.Namespace, workloads: list[Workload], folder: Path) -> Report:
    """Measure everything that was asked for."""
    measuring = asyncio.current_task()
    assert measuring is not None, "called as a task"
    # Whoever ends us, everything we have started is to be stopped; Ctrl-C does the same by itself.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    plan = Plan(
        cards=options.cards,
        stand_in_cards=STAND_IN_CARDS if any(each.stands_in for each in workloads) else 0,
        rival_processes=options.rival_processes,
        rival_connections=options.rival_connections,
    )
    about, cost = machine(), fsync_ms(folder)
    _say(f"Starting an installation, {plan.cards} cards and the rival ...")
    async with Stage(folder, plan) as stage:
        report = Report(
            machine=about,
            database=await stage.inside.ask("database"),
            fsync_ms=cost,
            plan={"seconds": options.seconds, "rounds": options.rounds, **msgspec.to_builtins(plan)},
            idle_cpu=await idle_cpu(stage.ours, IDLE_SECONDS),
            titles={each.name: each.title for each in workloads},
            slices=[],
        )
        priming: list[Slice] = []
        for workload in workloads:
            if workload.primes:
                priming += await _round(stage, workload, PRIMING_SECONDS)
        for number in range(options.rounds):
            _say(f"Round {number + 1} of {options.rounds}")
            for workload in workloads:
                report.slices += await _round(stage, workload, options.seconds)
        report.approved = sum(each.approved for each in (*priming, *report.slices) if each.system == OURS)
        report.held = await _held(stage, report.approved)
    report.summarise()
    return report


async def _held(stage: Stage, approved: int) -> int:
    """How many approvals have left their hold; the last simulated spends may still be on their way."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while True:
        held = await held_minor(stage.api, stage.every_id) // AMOUNT_MINOR
        if held >= approved or time.monotonic() > deadline:
            return held


async def _round(stage: Stage, workload: Workload, seconds: float) -> list[Slice]:
    """One slice of each system."""
    slices = []
    for system in (stage.ours, stage.rival):
        if system.name in workload.loads:
            load = workload.loads[system.name](stage)
            found = await measure(
                workload.name, system, load, stage.inside, warm_seconds=WARM_SECONDS, seconds=seconds
            )
            _say(
                f"  {workload.name:<11} {system.name:<10} {found.decisions_per_second:8,.0f}/s"
                f"  p50 {found.p50_ms:7.1f} ms  p99 {found.p99_ms:7.1f} ms"
                f"  {found.server_cpu_us:6.0f} µs server CPU each"
            )
            slices.append(found)
    return slices


def main() -> None:
    """Entry point of the command."""
    options = arguments()
    try:
        workloads = chosen(options.only)
    except ValueError as wrong:
        raise SystemExit(f"bench: {wrong}") from None
    with TemporaryDirectory(prefix="stanchion-bench-") as folder:
        # select() takes microseconds where epoll takes milliseconds: an open loop keeps its schedule.
        loop_factory = lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())  # noqa: E731
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                report = runner.run(run(options, workloads, Path(folder)))
        except (ChildError, HttpError) as failure:
            raise SystemExit(f"bench: {failure}") from None
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise SystemExit("bench: interrupted; everything it had started is stopped") from None
    print(f"\n{report.text()}")
    if options.json is not None:
        options.json.write_bytes(report.json() + b"\n")
    if report.held < report.approved:
        raise SystemExit("bench: approvals are missing from the balances")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
