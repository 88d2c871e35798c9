"""An hour at the highest rate: `python -m loadtests.endurance`.

Whole lives of sales over ISO 8583 (``loadtests.generators.lives``), a fixed number at a time, so that the
next message leaves as soon as one is answered. Every period shows the rate, the latency, and what must stay
flat: memory and the lag of event loops. Each answered message must be in the journal. It is not a test. An
hour writes about 30 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from loadtests.figures import Samples
from loadtests.generators.http import HttpError
from loadtests.generators.lives import LifeLoad
from loadtests.harness.children import ChildError, one_line
from loadtests.harness.machine import fsync_ms, machine
from loadtests.harness.memory import anonymous_bytes
from loadtests.harness.metrics import Scrape, scrape
from loadtests.harness.processes import CpuMeter, cpu_seconds, machine_cpu_seconds, tree
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.slices import table_bytes
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.options import count, positive
from loadtests.reports.endured import Endured, Period
from loadtests.reports.publish import NoMarksError, check_marks, insert_found

CARDS: Final = 1_000
CONNECTIONS: Final = 4
IN_FLIGHT: Final = 128
MINUTES: Final = 60.0
PERIODS: Final = 12
WARM_SECONDS: Final = 10.0
LAG: Final = "stanchion_loop_lag_seconds"
SECTIONS: Final = ("endurance",)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.endurance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=positive, default=MINUTES, help="[%(default)s]")
    parser.add_argument("--periods", type=count, default=PERIODS, help="rows of the table [%(default)s]")
    parser.add_argument("--in-flight", type=count, default=IN_FLIGHT, help="lives at a time [%(default)s]")
    parser.add_argument("--cards", type=count, default=CARDS, help="[%(default)s]")
    parser.add_argument("--folder", type=Path, help="keep logs and the database in this folder")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="put the text between the marks of this document, too"
    )
    return parser.parse_args(given)


class Observer:
    """Reads the meters of one installation at the end of each period."""

    def __init__(self, servers: BenchServers, load: LifeLoad) -> None:
        self._servers = servers
        self._load = load
        self._cpu = CpuMeter(servers.ours.roots, servers.ours.labels)
        self._began = self._machine = self._generator = 0.0
        self._lives = 0
        self._page: Scrape

    async def begin(self) -> int:
        """The first period begins; returns the number of messages refused before it."""
        self._page = await scrape(self._servers.run["metrics_url"])
        _, earlier = self._mark()
        return earlier.refused

    async def period(self, seconds: float) -> Period:
        """Wait for ``seconds`` and read the meters."""
        await asyncio.sleep(seconds)
        began, machine_before, generator_before = self._began, self._machine, self._generator
        lives, before = self._lives, self._page
        used, taken = self._mark()
        generated = self._generator - generator_before
        strangers = self._machine - machine_before - used - generated
        elapsed = self._began - began
        self._page = await scrape(self._servers.run["metrics_url"])
        sizes = await table_bytes(self._servers.ours)
        return Period(
            seconds=elapsed,
            lives=self._lives - lives,
            waits_ms=waits_ms(taken),
            refused=taken.refused,
            server_cpu_seconds=used,
            strangers_busy=max(0.0, strangers) / elapsed / (os.cpu_count() or 1),
            heap_bytes=await asyncio.to_thread(self._heap_bytes),
            lag_ms=lag_ms(before, self._page),
            data_bytes=sum(sum(each) for each in sizes.values()),
        )

    def _mark(self) -> tuple[float, Samples]:
        """Begin the next period; returns the CPU seconds and the samples of the last one."""
        used = sum(self._cpu.end().values())
        self._cpu.begin()
        self._machine, self._generator = machine_cpu_seconds(), cpu_seconds(self._load.pids)
        self._began, self._lives = time.monotonic(), self._load.lives
        return used, self._load.take()

    def _heap_bytes(self) -> int:
        pids = {process.pid for root in self._servers.ours.roots for process in tree(root)}
        return sum(anonymous_bytes(pid) for pid in pids)


def waits_ms(samples: Samples) -> array[float]:
    """The latencies of all answers, in little memory."""
    pairs = zip(samples.started, samples.done, strict=True)
    return array("f", (1000 * (done - started) for started, done in pairs))


def lag_ms(before: Scrape, after: Scrape) -> float:
    """The mean delay of all timers between two readings of the metrics."""
    sums, counts = (
        after.totals.get(name, 0.0) - before.totals.get(name, 0.0) for name in (f"{LAG}_sum", f"{LAG}_count")
    )
    return 1000 * sums / max(1.0, counts)


async def run(options: argparse.Namespace, folder: Path) -> Endured:
    """Start an installation and observe it. Raises ChildError or HttpError."""
    conditions, sync = machine(), fsync_ms(folder)
    async with BenchServers(folder, ServerPlan(cards=options.cards, rival_processes=0)) as servers:
        load = LifeLoad([servers.edge], servers.cards, connections=CONNECTIONS, in_flight=options.in_flight)
        rows = await _journal_rows(servers)
        periods, refused_outside, lost = await _observed(servers, load, options)
        written = await _journal_rows(servers) - rows
    return Endured(
        machine=conditions,
        fsync_ms=sync,
        in_flight=options.in_flight,
        periods=periods,
        refused_outside=refused_outside,
        lost=lost,
        rows_missing=max(0, load.answers - written),
    )


async def _observed(
    servers: BenchServers, load: LifeLoad, options: argparse.Namespace
) -> tuple[list[Period], int, int]:
    """The periods, the messages refused before and after them, and the messages without an answer."""
    periods: list[Period] = []
    await load.start()
    try:
        await asyncio.sleep(WARM_SECONDS)
        observer = Observer(servers, load)
        refused = await observer.begin()
        for _ in range(options.periods):
            periods.append(await observer.period(60 * options.minutes / options.periods))
            _say(shown(periods[-1]))
    finally:
        samples = await load.stop()
    return periods, refused + samples.refused, samples.lost


def shown(period: Period) -> str:
    """One line about a period while the run goes on."""
    per_second = len(period.waits_ms) / period.seconds
    return (
        f"  {time.strftime('%H:%M')} {per_second:,.0f}/s, {period.refused} refused, "
        f"heap {period.heap_bytes / 1e6:.0f} MB, lag {period.lag_ms:.1f} ms"
    )


async def _journal_rows(servers: BenchServers) -> int:
    rows: dict[str, int] = await servers.meter.ask("table_rows", database="")
    return rows["journal_rows"]


def main() -> None:
    """Entry point of the command; the exit status is 0 only if every target is reached."""
    options = arguments()
    try:
        if options.into is not None:
            check_marks(options.into, SECTIONS)
        with stoppable("endurance"), TemporaryDirectory(prefix="stanchion-endurance-") as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            endured = run_until_stopped(run(options, folder))
    except (NoMarksError, ChildError, HttpError) as failure:
        raise SystemExit(f"endurance: {one_line(failure)}") from None
    print(endured.text())
    if options.into is not None:
        insert_found(options.into, {"endurance": endured.text()})
    if endured.broken:
        raise SystemExit(f"endurance: {'; '.join(endured.broken)}")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
