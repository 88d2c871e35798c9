"""The benchmark of webhooks: `python -m loadtests.webhooks`.

Events are written into the outbox of an installation of its own; HTTPS receivers are separate processes. The
latency of a delivery is the age of its event on arrival. Decisions are timed alone, beside a backlog, and
beside unrelated processes that use as much CPU as the backlog did. It is not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from loadtests.figures import Window, latencies_ms, percentile
from loadtests.generators.http import HttpError
from loadtests.generators.wire import WireLoad
from loadtests.harness.children import ChildError, Helper
from loadtests.harness.machine import machine
from loadtests.harness.processes import CpuMeter, cpu_seconds, machine_cpu_seconds
from loadtests.harness.receivers import Arrivals, Receivers, make_trust
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.options import count, positive

HEALTHY: Final = 8
"""Endpoints of each of two tenants that answer at once; with one that hangs and one that refuses beside them,
a tenth of all hang and a tenth refuse."""
DECISIONS_PER_SECOND: Final = 100.0
WARM_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 2.0
BAD_SECONDS: Final = 11.0
DRAIN_SECONDS_MAX: Final = 600.0
LOG_MEGABYTES: Final = 400
"""At least as much log as the whole run writes."""
SHARE_MIN: Final = 0.01
SHARE_MAX: Final = 0.9
"""Bounds of the share of each processor that the unrelated processes use."""


class Phase(msgspec.Struct, kw_only=True):
    """The figures of one phase."""

    title: str
    deliveries_per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_us: float
    """Server CPU for each delivery."""
    parts_us: dict[str, float]
    receivers_us: float
    machine_busy: float
    decisions_p50_ms: float | None = None
    decisions_p99_ms: float | None = None


class WebhookBench:
    """Phases on one installation."""

    def __init__(
        self, servers: BenchServers, receivers: Receivers, publisher: Helper, strangers: Sequence[Helper]
    ) -> None:
        """``strangers``: one for each processor (``ops.bench.busy``)."""
        self._servers = servers
        self._receivers = receivers
        self._publisher = publisher
        self._strangers = strangers

    async def paced(self, title: str, per_second: float, seconds: float) -> Phase:
        """Events at a fixed rate that makes ``per_second`` deliveries to healthy endpoints."""
        await self._publisher.ask("start", per_second=per_second / self._receivers.fan_out)
        await asyncio.sleep(WARM_SECONDS)
        phase = await self._measured(title, asyncio.sleep(seconds))
        await self._publisher.ask("stop")
        await asyncio.sleep(PAUSE_SECONDS)
        return phase

    async def backlog(self, title: str, deliveries: int) -> Phase:
        """Publish ``deliveries`` at once and measure until all are delivered."""
        await self._publisher.ask("publish", count=deliveries // self._receivers.fan_out)
        phase = await self._measured(title, self._drained())
        # All events were published at one instant.
        phase.p50_ms = phase.p99_ms = None
        return phase

    async def decisions(self, deliveries: int, seconds: float) -> list[Phase]:
        """Decisions at a low rate: alone, beside a backlog, and beside unrelated processes."""
        alone = await self._deciding("decisions alone", asyncio.sleep(seconds))
        await self._publisher.ask("publish", count=deliveries // self._receivers.fan_out)
        beside = await self._deciding(f"decisions while {deliveries:,} deliveries drain", self._drained())
        beside.p50_ms = beside.p99_ms = None
        share = min(max(beside.machine_busy - alone.machine_busy, SHARE_MIN), SHARE_MAX)
        for stranger in self._strangers:
            await stranger.ask("start", share=share)
        control = await self._deciding("decisions beside strangers instead", asyncio.sleep(seconds))
        for stranger in self._strangers:
            await stranger.ask("stop")
        return [alone, beside, control]

    async def _deciding(self, title: str, work: Any) -> Phase:
        load = WireLoad(
            [self._servers.edge],
            self._servers.cards,
            connections=2,
            in_flight=0,
            per_second=DECISIONS_PER_SECOND,
        )
        await load.start()
        await asyncio.sleep(WARM_SECONDS)
        begin = time.monotonic()
        phase = await self._measured(title, work)
        window = Window(begin, time.monotonic())
        latencies = latencies_ms(await load.stop(), window)
        phase.decisions_p50_ms, phase.decisions_p99_ms = (percentile(latencies, at) for at in (0.5, 0.99))
        return phase

    async def _drained(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while await self._publisher.ask("left"):
            if time.monotonic() > deadline:
                raise ChildError("the backlog does not drain")
            await asyncio.sleep(0.25)

    async def _measured(self, title: str, work: Any) -> Phase:
        ours = self._servers.ours
        meter = CpuMeter(ours.roots, ours.labels)
        await self._receivers.take()
        meter.begin()
        begin, busy, outside = time.monotonic(), machine_cpu_seconds(), cpu_seconds(self._receivers.pids)
        await work
        seconds, parts = time.monotonic() - begin, meter.end()
        busy, outside = machine_cpu_seconds() - busy, cpu_seconds(self._receivers.pids) - outside
        arrivals = await self._receivers.take()
        return phase_of(title, arrivals, seconds, parts, outside, busy)


def phase_of(
    title: str, arrivals: Arrivals, seconds: float, parts: dict[str, float], outside: float, busy: float
) -> Phase:
    """The figures of a phase. ``parts``, ``outside`` and ``busy`` are CPU seconds: of the system by part, of
    the receivers, and of the whole machine."""
    delivered = len(arrivals.arrived)
    each = 1e6 / delivered if delivered else 0.0
    return Phase(
        title=title,
        deliveries_per_second=delivered / seconds,
        p50_ms=percentile(arrivals.age_ms, 0.5) if delivered else None,
        p99_ms=percentile(arrivals.age_ms, 0.99) if delivered else None,
        cpu_us=sum(parts.values()) * each,
        parts_us={part: used * each for part, used in sorted(parts.items(), key=lambda item: -item[1])},
        receivers_us=outside * each,
        machine_busy=busy / seconds / (os.cpu_count() or 1),
    )


async def run(options: argparse.Namespace, folder: Path) -> list[Phase]:
    """Every phase in turn."""
    trust = make_trust(folder)
    _say("Starting an installation, its cards and the receivers ...")
    plan = ServerPlan(cards=200, rival_processes=0)
    with (folder / "webhooks.log").open("ab") as errors:
        async with BenchServers(folder, plan, trust.environment) as servers:
            publisher = await servers.helper(errors, "ops.bench.publisher", str(folder / "var"))
            strangers = [await servers.helper(errors, "ops.bench.busy") for _ in range(os.cpu_count() or 1)]
            receivers = Receivers(servers, trust, errors, processes=options.receivers, healthy=HEALTHY)
            async with receivers:
                await publisher.ask("use_log", megabytes=LOG_MEGABYTES)
                return await _phases(
                    WebhookBench(servers, receivers, publisher, strangers), receivers, options
                )


async def _phases(bench: WebhookBench, receivers: Receivers, options: argparse.Namespace) -> list[Phase]:
    phases: list[Phase] = []

    def add(phase: Phase) -> None:
        phases.append(phase)
        _say(f"  {phase.title}: {phase.deliveries_per_second:,.0f}/s, {phase.cpu_us:.0f} µs server CPU each")

    await receivers.set_bad(False)
    await bench.backlog("warming up", 2_000)
    add(await bench.backlog(f"a burst of {options.burst:,}", options.burst))
    rate, seconds = options.rate, options.seconds
    add(await bench.paced(f"{rate:,.0f}/s, all endpoints healthy", rate, seconds))
    await receivers.set_bad(True)
    # The first hanging attempts end after ten seconds; then the load is steady.
    await bench.paced("becoming known", rate, BAD_SECONDS)
    add(await bench.paced(f"{rate:,.0f}/s, a tenth hangs, a tenth refuses", rate, seconds))
    await receivers.set_bad(False)
    if options.backlog:
        for phase in await bench.decisions(options.backlog, options.decision_seconds):
            add(phase)
    return phases


def text(phases: list[Phase]) -> str:
    """The report, as Markdown."""
    head = (
        "phase",
        "deliveries/s",
        "p50 ms",
        "p99 ms",
        "server CPU µs",
        "receivers µs",
        "machine busy",
        "decisions p50, p99 ms",
    )
    rows = [head, tuple("---" for _ in head)]
    for each in phases:
        decisions = (
            ""
            if each.decisions_p50_ms is None
            else f"{each.decisions_p50_ms:.1f}, {each.decisions_p99_ms:.1f}"
        )
        rows.append(
            (
                each.title,
                f"{each.deliveries_per_second:,.0f}",
                *("" if ms is None else f"{ms:.0f}" for ms in (each.p50_ms, each.p99_ms)),
                *(f"{us:.0f}" for us in (each.cpu_us, each.receivers_us)),
                f"{each.machine_busy:.0%}",
                decisions,
            )
        )
    parts = [
        f"- {each.title}: " + ", ".join(f"{part} {us:.0f}" for part, us in each.parts_us.items() if us >= 1)
        for each in phases
        if each.deliveries_per_second >= 1
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\nServer CPU for each delivery, in µs:\n\n" + "\n".join(parts)


def main() -> None:
    """Entry point of the command."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.webhooks", description=__doc__)
    parser.add_argument("--rate", type=positive, default=500.0, help="deliveries a second [%(default)s]")
    parser.add_argument("--seconds", type=positive, default=5.0, help="measured length [%(default)s]")
    parser.add_argument(
        "--decision-seconds", type=positive, default=20.0, help="decisions without a backlog [%(default)s]"
    )
    parser.add_argument("--burst", type=count, default=10_000, help="deliveries at once [%(default)s]")
    parser.add_argument("--backlog", type=int, default=100_000, help="0 leaves it out [%(default)s]")
    parser.add_argument("--receivers", type=count, default=2, help="receiving processes [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    about = machine()
    with stoppable("webhooks"), TemporaryDirectory(prefix="stanchion-bench-") as folder:
        try:
            phases = run_until_stopped(run(options, Path(folder)))
        except (ChildError, HttpError) as failure:
            raise SystemExit(f"webhooks: {failure}") from None
    print("\n".join(f"- {name}: {value}" for name, value in about.items()) + "\n")
    print(text(phases))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.encode(phases) + b"\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
