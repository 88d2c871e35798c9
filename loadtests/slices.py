"""One slice: a load runs for a few seconds, and every meter is read around the same window."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from loadtests.children import Helper
from loadtests.figures import Samples, Slice, Window, latencies_ms, percentile, rate
from loadtests.metrics import COMMITTED, DECIDED, Scrape, scrape
from loadtests.processes import CpuMeter, cpu_seconds, machine_cpu_seconds
from loadtests.workload import Load

OURS = "stanchion"
RIVAL = "row locks"


class System(msgspec.Struct, frozen=True):
    """A system under load: the process trees that are its servers, and its metrics page if it has one."""

    name: str
    roots: tuple[int, ...]
    labels: Mapping[int, str]
    metrics_url: str | None = None


class Readings(NamedTuple):
    """All meters at one end of the window."""

    at: float
    generator: float
    machine: float
    wal: tuple[float, int]
    page: Scrape | None


class Meters:
    """Everything that is read at both ends of a slice's window."""

    def __init__(self, system: System, load: Load, inside: Helper) -> None:
        self._system = system
        self._load = load
        self._inside = inside
        self._cpu = CpuMeter(system.roots, system.labels)

    async def begin(self) -> Readings:
        """The window begins when this returns."""
        page, wal = await self._page(), await self._wal()
        self._cpu.begin()
        return Readings(time.monotonic(), cpu_seconds(self._load.pids), machine_cpu_seconds(), wal, page)

    async def end(self) -> tuple[Readings, dict[str, float]]:
        """The window ends when this is called; also the servers' CPU seconds by part."""
        at, generator, machine = time.monotonic(), cpu_seconds(self._load.pids), machine_cpu_seconds()
        parts = self._cpu.end()
        return Readings(at, generator, machine, await self._wal(), await self._page()), parts

    async def _wal(self) -> tuple[float, int]:
        written = await self._inside.ask("wal_bytes")
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
    return _slice(workload, system, samples, before, after, parts)


async def idle_cpu(system: System, seconds: float) -> dict[str, float]:
    """Share of one core that each part of ``system`` uses while nobody asks anything."""
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
    before: Readings,
    after: Readings,
    parts: dict[str, float],
) -> Slice:
    window = Window(before.at, after.at)
    decisions = rate(samples, window)
    commits: float | None = None
    if before.page is not None and after.page is not None:
        decided = _growth(before.page, after.page, DECIDED)
        if samples.partial:
            decisions = decided / (after.page.at - before.page.at)
        commits = decided / max(1.0, _growth(before.page, after.page, COMMITTED))
    us_per_decision = 1e6 / window.seconds / max(decisions, 1e-9)
    server, generator = sum(parts.values()), after.generator - before.generator
    machine = after.machine - before.machine
    cores = (os.cpu_count() or 1) * window.seconds
    wal_rate = (after.wal[1] - before.wal[1]) / (after.wal[0] - before.wal[0])
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
        strangers_busy=max(0.0, machine - server - generator) / cores,
        decisions_per_commit=commits,
        wal_bytes=wal_rate / max(decisions, 1e-9),
        approved=samples.approved,
        refused=samples.refused,
        lost=samples.lost,
        lateness_p99_ms=percentile(samples.lateness, 0.99) * 1000 if samples.lateness else None,
    )


def _growth(before: Scrape, after: Scrape, name: str) -> float:
    return after.totals.get(name, 0.0) - before.totals.get(name, 0.0)
