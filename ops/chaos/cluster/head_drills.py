"""Drills on Ray's head: it dies with its machine, a host dies meanwhile, and it comes back."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Final

from actors.cluster.title import title_of
from ops.chaos.cluster.installation import (
    EDGE_TITLE,
    HOST_TITLE,
    Cluster,
    complete,
    expect_none_refused,
    p99_ms,
    serving,
)
from ops.chaos.environment.processes import signal_processes
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, Outcome

BASELINE_SECONDS: Final = 10.0
HEADLESS_SECONDS: Final = 65.0
"""Ray by itself ends nodes whose head is away for a minute."""
HEADLESS_MS_MAX: Final = 100.0
HEADLESS_FIRST_GOOD_MS_MAX: Final = 1500.0
MANAGED_SECONDS_MAX: Final = 90.0


async def lose_head(cluster: Cluster) -> Outcome:
    """All processes of the head's machine die, the supervisor and a coordinator among them. Figure: 99th
    percentile, in milliseconds, of the answers while Ray has no head."""
    cluster.serving = serving(cluster)
    # The same load on the same machine, with a head.
    before = time.monotonic()
    await asyncio.sleep(BASELINE_SECONDS)
    print(f"         {p99_ms(cluster, before):.2f} (ms p99 of the answers before)", flush=True)
    await asyncio.to_thread(cluster.installation.kill)
    await asyncio.to_thread(cluster.ray.kill_head)
    began = time.monotonic()
    await asyncio.sleep(HEADLESS_SECONDS)
    outcome = Outcome(0.0)
    expect_none_refused(cluster, began, outcome)
    outcome.figure = p99_ms(cluster, began)
    outcome.expect(serving(cluster) == cluster.serving, "a process has ended")
    return outcome


async def lose_host(cluster: Cluster) -> Outcome:
    """A shard host dies while Ray has no head. Figure: milliseconds until the last of its cards is
    answered."""
    owners = [title_of(host) for host in await cluster.hosts()]
    # Every card spends, also those of other hosts: they must not notice.
    (victim, *_) = (pid for title in owners for pid in cluster.spare[0].named(title))
    signal_processes(signal.SIGKILL, [victim])
    began = time.monotonic()
    operations = await asyncio.gather(*(terminal.purchase() for terminal in cluster.crowd.terminals))
    waits = [1000 * ((each.ended or 0.0) - began) for each in operations if each.outcome == "ok"]
    outcome = Outcome(max(waits, default=1000 * ANSWER_SECONDS_MAX))
    outcome.expect(len(waits) == len(operations), "a card was not answered")
    cluster.serving.discard(victim)
    return outcome


async def return_head(cluster: Cluster) -> Outcome:
    """The head's machine and the supervisor start again. All other processes are the same as before, and are
    managed: the lost host and a killed edge are replaced. Figure: seconds until then."""
    began = time.monotonic()
    await asyncio.to_thread(cluster.ray.start_head)
    cluster.record = await asyncio.to_thread(cluster.installation.start)
    await complete(cluster)
    hosts = 2 * len(cluster.spare)
    outcome = Outcome(0.0)
    ended = cluster.serving - serving(cluster)
    outcome.expect(not ended, f"{len(ended)} processes were replaced")
    (edge, *_) = cluster.spare[0].named(EDGE_TITLE)
    signal_processes(signal.SIGKILL, [edge])
    async with asyncio.timeout(MANAGED_SECONDS_MAX):
        while True:
            edges = set(cluster.spare[0].named(EDGE_TITLE)) - {edge}
            living = sum(len(node.named(HOST_TITLE)) for node in cluster.spare)
            if edges and living >= hosts:
                break
            await asyncio.sleep(0.1)
    await complete(cluster)
    outcome.figure = time.monotonic() - began
    return outcome
