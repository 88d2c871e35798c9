"""Slow clients beside the shoppers (G13)."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.chaos.traffic.flood import p99
from ops.chaos.traffic.slow_clients import SlowPlan, SlowServer

ROOT: Final = Path(__file__).parents[3]
SLOW_CLIENTS: Final = 500
BYTE_SECONDS: Final = 5.0
CLOSED_SECONDS_MAX: Final = 15.0
SLOWER_MAX: Final = 2.0
P99_SECONDS_MIN: Final = 0.05
"""A p99 below this is good whatever it was before."""
ROUNDS: Final = 3
MEASURED_SECONDS: Final = 6
_HTTP: Final = b"POST /v1/simulated-loads HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
_WIRE: Final = b"\x00\xa0010"


@dataclass(frozen=True)
class Round:
    """p99 of decisions in seconds before and beside the slow clients, and the longest connection of one."""

    before: float
    beside: float
    connected_seconds: float

    @property
    def slower(self) -> float:
        """How many times slower decisions were. Those faster than ``P99_SECONDS_MIN`` are never too slow."""
        return self.beside / max(self.before, P99_SECONDS_MIN / SLOWER_MAX)


async def slow_clients(rig: Rig) -> Outcome:
    """Slow clients, half at the API and half at the edge, three times. Figure: the longest time for which one
    stayed connected, in seconds."""
    rounds = [await _round(rig) for _ in range(ROUNDS)]
    outcome = Outcome(max(each.connected_seconds for each in rounds))
    shown = ", ".join(f"{1000 * each.before:.0f} → {1000 * each.beside:.0f}" for each in rounds)
    # By pairs: on a shared machine, rounds differ more than what is compared within one.
    outcome.expect(median(each.slower for each in rounds) <= SLOWER_MAX, f"p99 {shown} ms")
    return outcome


async def _round(rig: Rig) -> Round:
    before = await _p99(rig)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ops.chaos.traffic.slow_clients", stdin=pipe, stdout=pipe, cwd=ROOT
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(_plan(rig)) + b"\n")
        if not await process.stdout.readline():
            raise NotInjectedError("the slow clients did not connect")
        beside = await _p99(rig)
        return Round(before, beside, float(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _plan(rig: Rig) -> SlowPlan:
    http, wire = urlsplit(rig.record["base_url"]), rig.record["iso8583"]
    servers = [
        SlowServer(http.hostname or "", http.port or 80, _HTTP),
        SlowServer(wire["host"], wire["port"], _WIRE),
    ]
    return SlowPlan(servers, SLOW_CLIENTS // len(servers), BYTE_SECONDS)


async def _p99(rig: Rig) -> float:
    """The p99 latency of the decisions in each of the next seconds: the median of these, in seconds. One
    pause of the machine changes one of them."""
    began = time.monotonic()
    await asyncio.sleep(MEASURED_SECONDS)
    ended = time.monotonic()
    waits: list[list[float]] = [[] for _ in range(MEASURED_SECONDS + 1)]
    for each in rig.crowd.history.since(began):
        second = min(MEASURED_SECONDS, int(each.began - began))
        waits[second].append((each.ended or ended) - each.began)
    found = [p99(second) for second in waits[:MEASURED_SECONDS] if second]
    if not found:
        raise NotInjectedError("no operation ran during the fault")
    return median(found)


SLOW_CLIENT_FAULTS: Final = (
    Fault(
        "G13",
        f"{SLOW_CLIENTS} slow clients, one byte in 5 s",
        "s until closed",
        CLOSED_SECONDS_MAX,
        slow_clients,
    ),
)
