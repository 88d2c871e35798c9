"""One slice: a load runs for a few seconds, and all meters are read at both ends of one window."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from loadtests.figures import Samples, Slice, TableGrowth, Window, latencies_ms, percentile, rate
from loadtests.generators.workload import Load
from loadtests.harness.metrics import COMMITTED, DECIDED, Scrape, scrape
from loadtests.harness.processes import CpuMeter, cpu_seconds, machine_cpu_seconds
from loadtests.harness.systems import System

CALLER = "caller"
"""The callers' share of a system's CPU time, where callers do work of the system itself: the router."""


class Readings(NamedTuple):
    """All meters at one end of the window."""

    at: float
    generator: float
    equipment: float
    machine: float
    log: tuple[float, int] | None
    page: Scrape | None


class Meters:
    """The meters that are read at both ends of a slice's window."""

    def __init__(self, system: System, load: Load) -> None:
        self._system = system
        self._load = load
        self._cpu = CpuMeter(system.roots, system.labels)

    async def begin(self) -> Readings:
        """The window begins when this returns."""
        page, log = await self._page(), await self._log()
        self._cpu.begin()
        return Readings(time.monotonic(), *self._outside(), machine_cpu_seconds(), log, page)

    async def end(self) -> tuple[Readings, dict[str, float]]:
        """The window ends when this is called; also the servers' CPU seconds by part."""
        at, outside, machine = time.monotonic(), self._outside(), machine_cpu_seconds()
        parts = self._cpu.end()
        return Readings(at, *outside, machine, await self._log(), await self._page()), parts

    def _outside(self) -> tuple[float, float]:
        return cpu_seconds(self._load.pids), cpu_seconds(self._system.equipment)

    async def _log(self) -> tuple[float, int] | None:
        about = self._system.log
        return None if about is None else (time.monotonic(), await about.ask("log_bytes"))

    async def _page(self) -> Scrape | None:
        url = self._system.metrics_url
        return None if url is None else await scrape(url)


async def measure(workload: str, system: System, load: Load, *, warm_seconds: float, seconds: float) -> Slice:
    """Run ``load`` and read the meters over ``seconds``. Tables are measured before and after the whole load,
    when no decision is open."""
    tables = await table_bytes(system)
    await load.start()
    await asyncio.sleep(warm_seconds)
    meters = Meters(system, load)
    before = await meters.begin()
    await asyncio.sleep(seconds)
    after, parts = await meters.end()
    samples = await load.stop()
    grown = growth(tables, await table_bytes(system))
    generator = after.generator - before.generator
    if load.counts_as_server:
        # A rival's callers are among its servers; ours are a process beside them, with the router in it.
        if not set(load.pids) & set(system.roots):
            parts[CALLER] = parts.get(CALLER, 0.0) + generator
        generator = 0.0
    found = _slice(workload, system, samples, (before, after), parts, generator, load.counts_as_server)
    return msgspec.structs.replace(found, tables=grown, decided=decided(samples))


TableBytes = Mapping[str, Sequence[int]]
"""Bytes of the rows and bytes of the indexes, by table."""


async def table_bytes(system: System) -> TableBytes:
    """The sizes of the tables of ``system``; none if it has no tables."""
    if system.log is None or system.database is None:
        return {}
    sizes: TableBytes = await system.log.ask("table_bytes", database=system.database)
    return sizes


def growth(before: TableBytes, after: TableBytes) -> dict[str, TableGrowth]:
    """The tables that changed their size."""
    grown = {
        name: TableGrowth(rows - before.get(name, (0, 0))[0], indexes - before.get(name, (0, 0))[1])
        for name, (rows, indexes) in after.items()
    }
    return {name: each for name, each in grown.items() if each != TableGrowth()}


def decided(samples: Samples) -> int:
    """The number of decisions of a whole load, warm-up included."""
    return samples.approved + samples.refused if samples.partial else len(samples.done)


def _slice(
    workload: str,
    system: System,
    samples: Samples,
    readings: tuple[Readings, Readings],
    parts: dict[str, float],
    generator: float,
    counts_as_server: bool,
) -> Slice:
    before, after = readings
    window = Window(before.at, after.at)
    decisions = rate(samples, window)
    commits, round_trips, calls = None, _each(samples.round_trips, samples), _each(samples.calls, samples)
    if before.page is not None and after.page is not None:
        decided = _growth(before.page, after.page, DECIDED)
        if samples.partial:
            decisions = decided / (after.page.at - before.page.at)
        commits = decided / max(1.0, _growth(before.page, after.page, COMMITTED))
        # One statement is one commit.
        round_trips = 1 / max(commits, 1e-9)
    us_per_decision = 1e6 / window.seconds / max(decisions, 1e-9)
    server = sum(parts.values())
    machine = after.machine - before.machine
    cores = (os.cpu_count() or 1) * window.seconds
    latencies = latencies_ms(samples, window)
    return Slice(
        workload=workload,
        system=system.name,
        decisions_per_second=decisions,
        p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99),
        server_cpu_us=server * us_per_decision,
        server_parts_us={part: used * us_per_decision for part, used in parts.items()},
        generator_cpu_us=generator * us_per_decision,
        machine_busy=machine / cores,
        strangers_busy=max(0.0, machine - server - generator - (after.equipment - before.equipment)) / cores,
        counts_as_server=counts_as_server,
        decisions_per_commit=commits,
        sql_round_trips=round_trips,
        process_calls=(calls or 0.0) if counts_as_server else None,
        wal_bytes=_log_bytes(before, after, decisions),
        approved=samples.approved,
        refused=samples.refused,
        lost=samples.lost,
        lateness_p99_ms=percentile(samples.lateness, 0.99) * 1000 if samples.lateness else None,
        server="" if system.log is None else f"log reader {system.log.pid}",
    )


def _log_bytes(before: Readings, after: Readings, decisions_per_second: float) -> float | None:
    """Bytes of log for each decision."""
    if before.log is None or after.log is None:
        return None
    seconds = after.log[0] - before.log[0]
    return (after.log[1] - before.log[1]) / seconds / max(decisions_per_second, 1e-9)


def _each(count: int, samples: Samples) -> float | None:
    """``count`` divided by the requests of the whole slice; ``None`` when either is zero."""
    return count / len(samples.done) if count and samples.done else None


def _growth(before: Scrape, after: Scrape, name: str) -> float:
    return after.totals.get(name, 0.0) - before.totals.get(name, 0.0)
