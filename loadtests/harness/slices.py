"""One slice: a load runs for a few seconds, and all meters are read at both ends of one window."""

from __future__ import annotations

import asyncio
import os
import time
from typing import NamedTuple

from loadtests.figures import Samples, Slice, Window, latencies_ms, percentile, rate
from loadtests.generators.workload import Load
from loadtests.harness.children import Helper
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
    log: tuple[float, int]
    page: Scrape | None


class Meters:
    """The meters that are read at both ends of a slice's window."""

    def __init__(self, system: System, load: Load, inside: Helper) -> None:
        self._system = system
        self._load = load
        self._inside = inside
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

    async def _log(self) -> tuple[float, int]:
        about = self._system.log
        written = await (self._inside.ask("wal_bytes") if about is None else about.ask("log_bytes"))
        return time.monotonic(), written

    async def _page(self) -> Scrape | None:
        url = self._system.metrics_url
        return None if url is None else await scrape(url)


async def measure(
    workload: str, system: System, load: Load, inside: Helper, *, warm_seconds: float, seconds: float
) -> Slice:
    """Run ``load`` and read the meters over ``seconds``."""
    await load.start()
    await asyncio.sleep(warm_seconds)
    meters = Meters(system, load, inside)
    before = await meters.begin()
    await asyncio.sleep(seconds)
    after, parts = await meters.end()
    samples = await load.stop()
    generator = after.generator - before.generator
    if load.counts_as_server:
        # A rival's callers are among its servers; ours are a process beside them, with the router in it.
        if not set(load.pids) & set(system.roots):
            parts[CALLER] = parts.get(CALLER, 0.0) + generator
        generator = 0.0
    return _slice(workload, system, samples, (before, after), parts, generator, load.counts_as_server)


async def idle_cpu(system: System, seconds: float) -> dict[str, float]:
    """Share of one core that each part of ``system`` uses without load."""
    meter = CpuMeter(system.roots, system.labels)
    meter.begin()
    begin = time.monotonic()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - begin
    return {part: used / elapsed for part, used in meter.end().items()}


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
    log_rate = (after.log[1] - before.log[1]) / (after.log[0] - before.log[0])
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
        wal_bytes=log_rate / max(decisions, 1e-9),
        approved=samples.approved,
        refused=samples.refused,
        lost=samples.lost,
        lateness_p99_ms=percentile(samples.lateness, 0.99) * 1000 if samples.lateness else None,
    )


def _each(count: int, samples: Samples) -> float | None:
    """``count`` divided by the requests of the whole slice; ``None`` when either is zero."""
    return count / len(samples.done) if count and samples.done else None


def _growth(before: Scrape, after: Scrape, name: str) -> float:
    return after.totals.get(name, 0.0) - before.totals.get(name, 0.0)
