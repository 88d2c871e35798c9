"""The command line of the benchmark: its options, and the workloads and systems that they choose."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loadtests.harness.servers import ServerPlan
from loadtests.harness.systems import RIVALS
from loadtests.options import count, positive
from loadtests.reports.publish import FOLDER
from loadtests.workloads import WORKLOADS, Workload

_EPILOG = """
workloads:
{workloads}

how it measures:
  Latencies of open loops count from the instant at which a request was due. Server CPU is all processes of
  the system (actors, Ray, PostgreSQL, Redis, supervisor) from /proc; the generator is counted apart. In the
  in-process workloads ("router ...") the callers count as servers of every system: ours contain the router,
  the rivals' are the processes that decide. Simulated spends are counted by the hosts and timed by the
  records of a sample. ops/docs/PERFORMANCE.md describes the rivals.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    epilog = _EPILOG.format(workloads="\n".join(f"  {each.name:<14} {each.title}" for each in WORKLOADS))
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench",
        description="Measure decisions per second, latency and CPU, ours and the rivals' in turn.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=positive, default=1.4, help="measured length of a slice [%(default)s]"
    )
    parser.add_argument(
        "--rounds", type=count, default=3, help="slices of each workload and system [%(default)s]"
    )
    parser.add_argument("--only", default="", metavar="NAME,…", help="these workloads alone")
    parser.add_argument(
        "--rivals", default=",".join(RIVALS), metavar="NAME,…", help="these rivals alone [%(default)s]"
    )
    parser.add_argument(
        "--cards", type=count, default=ServerPlan().cards, help="cards to draw from [%(default)s]"
    )
    parser.add_argument(
        "--rival-processes",
        type=count,
        default=ServerPlan().rival_processes,
        help="of each rival [%(default)s]",
    )
    parser.add_argument(
        "--rival-connections",
        type=count,
        default=ServerPlan().rival_connections,
        help="a rival's database connections, over all its processes [%(default)s]",
    )
    parser.add_argument(
        "--report",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="for bench.md, bench.json (single slices too) and bench.html (plots) [var/bench]",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="also measure this commit of the repository: a hash, a tag or a branch",
    )
    parser.add_argument(
        "--against-python",
        metavar="FILE",
        help="the interpreter that runs that commit: --against HEAD compares two builds of Python",
    )
    parser.add_argument(
        "--into",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="put the report, or the figures to plan with, between the marks of this document; repeatable",
    )
    options = parser.parse_args(given)
    if options.against_python is not None and options.against is None:
        parser.error("--against-python needs --against")
    return options


def chosen(names: str) -> list[Workload]:
    """The workloads in ``names`` (comma-separated); all of them when it is empty. Raises ValueError."""
    known = {each.name: each for each in WORKLOADS}
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"no such workload: {', '.join(unknown)}; known are {', '.join(known)}")
    return [known[name] for name in wanted] or list(WORKLOADS)


def chosen_rivals(names: str) -> tuple[str, ...]:
    """The rivals in ``names`` (comma-separated; none when it is empty). Raises ValueError."""
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in RIVALS]
    if unknown:
        raise ValueError(f"no such rival: {', '.join(unknown)}; known are {', '.join(RIVALS)}")
    return tuple(wanted)


def not_compared(workloads: list[Workload]) -> list[str]:
    """The names of the workloads that cannot run on an earlier commit. Raises ValueError if none can."""
    names = [each.name for each in workloads if each.outside is None]
    if len(names) == len(workloads):
        can = ", ".join(each.name for each in WORKLOADS if each.outside is not None)
        raise ValueError(f"{', '.join(names)}: inside the process, so no other commit can run it; {can} can")
    return names
