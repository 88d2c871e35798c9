"""An installation without load: its start, its processor time and its memory."""

from __future__ import annotations

import asyncio
import time

import msgspec

from loadtests.harness.processes import CpuMeter, command_line, part_of, pss_bytes, tree
from loadtests.harness.systems import System


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """One installation at rest, measured once for each run."""

    system: str
    ready_seconds: float
    """Time from the start command in an empty folder until it served."""
    idle_cpu: dict[str, float]
    """Share of one core by part."""
    pss_bytes: dict[str, int]
    """Proportional set size by part: a page that several processes share is divided among them."""
    processes: int


async def footprint(system: System, ready_seconds: float, seconds: float) -> Footprint:
    """Observe ``system`` for ``seconds``."""
    idle = await idle_cpu(system, seconds)
    members = {process.pid for root in system.roots for process in tree(root)}
    memory: dict[str, int] = {}
    for pid in members:
        part = system.labels.get(pid) or part_of(command_line(pid))
        memory[part] = memory.get(part, 0) + pss_bytes(pid)
    return Footprint(
        system=system.name,
        ready_seconds=ready_seconds,
        idle_cpu=idle,
        pss_bytes=memory,
        processes=len(members),
    )


async def idle_cpu(system: System, seconds: float) -> dict[str, float]:
    """Share of one core that each part of ``system`` uses without load."""
    meter = CpuMeter(system.roots, system.labels)
    meter.begin()
    begin = time.monotonic()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - begin
    return {part: used / elapsed for part, used in meter.end().items()}
