"""Overload: more authorizations than the installation can decide (G14)."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Self

import msgspec

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.environment.processes import cpu_seconds, idle_seconds
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.chaos.traffic.flood import FloodPhase, FloodTarget, PhaseResult
from ops.chaos.traffic.shoppers import Plastic

ROOT: Final = Path(__file__).parents[3]
PEAK: Final = FloodPhase(seconds=4.0, in_flight=1_024)
PAIRS: Final = 3
"""One pair of phases varies by a third on a shared machine."""
OVERLOAD_SECONDS: Final = 4.0
OVERLOAD: Final = 4
FLOOD_CARDS: Final = 64
LATE_SECONDS: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 1
"""By then every admitted authorization is answered."""
OFFERED_MIN: Final = 2.5
GOODPUT_MIN: Final = 0.8
REFUSAL_MS_MAX: Final = 100.0
AFTER_FLOOD_SECONDS_MAX: Final = 30.0


class FloodProcess:
    """The flood generator in a process of its own; an async context manager."""

    def __init__(self, rig: Rig, plastics: list[Plastic]) -> None:
        wire = rig.record["iso8583"]
        self._plan = FloodTarget(wire["host"], wire["port"], plastics)
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ops.chaos.traffic.flood", stdin=pipe, stdout=pipe, cwd=ROOT
        )
        self._write(self._plan)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def run(self, phase: FloodPhase) -> PhaseResult:
        """Run ``phase``; returns its result. Raises NotInjectedError."""
        self._write(phase)
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise NotInjectedError("the flood generator has ended")
        return msgspec.json.decode(line, type=PhaseResult)

    def _write(self, what: FloodTarget | FloodPhase) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what) + b"\n")


@dataclass(frozen=True)
class MeasuredPhase:
    """The result of a phase, and the processor seconds that were available to the servers: used and idle
    ones."""

    result: PhaseResult
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Approvals per second."""
        return self.result.approved / self.result.seconds

    @property
    def per_cpu_second(self) -> float:
        """Approvals per processor second that the servers used or could have used."""
        return self.result.approved / max(self.cpu_seconds, 0.01)


@dataclass(frozen=True)
class Pair:
    """A phase of overload between two phases of peak load: the speed of a machine drifts."""

    before: MeasuredPhase
    flooded: MeasuredPhase
    after: MeasuredPhase
    recovery_seconds: float

    @property
    def part_of_peak(self) -> float:
        """Approvals per available processor second, as a part of those at the peak."""
        return 2 * self.flooded.per_cpu_second / (self.before.per_cpu_second + self.after.per_cpu_second)

    @property
    def offered_per_second(self) -> float:
        return self.flooded.result.offered / self.flooded.result.seconds

    def show(self) -> None:
        result = self.flooded.result
        print(
            f"[{self.before.per_second:.0f} and {self.after.per_second:.0f}/s at the peak;"
            f" {self.offered_per_second:.0f}/s offered, {self.flooded.per_second:.0f}/s approved,"
            f" {result.refused} refused, {result.unanswered} unanswered; p99 of refusals"
            f" {result.refusal_ms_p99:.0f} ms, of approvals {result.approval_ms_p99:.0f} ms, of the generator"
            f" {result.lag_ms_p99:.0f} ms]",
            end=" ",
        )


async def overload(rig: Rig) -> Outcome:
    """Offer four times the peak load, three times. Figure: the median of the parts of the peak."""
    # Separate cards: otherwise a later takeover would read back thousands of open holds on the shoppers'
    # cards.
    async with FloodProcess(rig, await rig.more_plastics(FLOOD_CARDS)) as flooding:
        # Warm up, and create the same backlog of webhook deliveries as the peak phase does: deliveries then
        # use the same processor time in both phases.
        await flooding.run(PEAK)
        peak = await _measured(rig, flooding, PEAK)
        if peak.per_second < 10:
            raise NotInjectedError("no decision was made at the peak")
        pairs: list[Pair] = []
        highest = 0.0
        for _ in range(PAIRS):
            # A peak beside the deliveries of the load before can be a quarter of the highest one.
            highest = max(highest, peak.per_second)
            pairs.append(await _pair(rig, flooding, peak, highest))
            peak = pairs[-1].after
        await rig.recovered()
    outcome = Outcome(median(pair.part_of_peak for pair in pairs))
    unanswered = sum(pair.flooded.result.unanswered for pair in pairs)
    outcome.expect(not unanswered, f"{unanswered} were never answered")
    refusal = median(pair.flooded.result.refusal_ms_p99 for pair in pairs)
    outcome.expect(refusal <= REFUSAL_MS_MAX, f"a refusal took {refusal:.0f} ms")
    normal = max(pair.recovery_seconds for pair in pairs)
    outcome.expect(normal <= AFTER_FLOOD_SECONDS_MAX, f"service was normal only after {normal:.1f} s")
    return outcome


async def _pair(rig: Rig, flooding: FloodProcess, peak: MeasuredPhase, highest: float) -> Pair:
    """Overload of ``highest`` decisions a second after ``peak``, and the peak again. Raises
    NotInjectedError."""
    wanted = OVERLOAD * highest
    await flooding.run(FloodPhase(seconds=0.0, prepare=int(1.1 * wanted * OVERLOAD_SECONDS)))
    phase = FloodPhase(seconds=OVERLOAD_SECONDS, per_second=wanted, late_seconds=LATE_SECONDS)
    flooded = await _measured(rig, flooding, phase)
    began = time.monotonic()
    await rig.recovered()
    normal = time.monotonic() - began
    pair = Pair(peak, flooded, await _measured(rig, flooding, PEAK), normal)
    pair.show()
    if pair.offered_per_second < OFFERED_MIN * highest:
        raise NotInjectedError(
            f"only {pair.offered_per_second:.0f}/s could be offered against {highest:.0f}/s"
        )
    if not flooded.result.refused:
        raise NotInjectedError("the whole load was decided")
    return pair


async def _measured(rig: Rig, flooding: FloodProcess, phase: FloodPhase) -> MeasuredPhase:
    """Run ``phase``; measures the servers' processor time and the idle time while it lasts, without the wait
    for late answers."""
    running = asyncio.create_task(flooding.run(phase))
    before, idle = cpu_seconds(rig.all_pids()), idle_seconds()
    await asyncio.sleep(phase.seconds)
    after, unused = cpu_seconds(rig.all_pids()), idle_seconds() - idle
    servers = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
    return MeasuredPhase(await running, servers + unused)


OVERLOAD_FAULTS: Final = (
    Fault("G14", "four times the peak load", "of the peak", GOODPUT_MIN, overload, least=True),
)
