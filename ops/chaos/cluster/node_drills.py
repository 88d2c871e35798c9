"""Drills on nodes: one joins, all processes restart, one is drained, one dies."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from engine.ids import shard_of
from ops.chaos.cluster.installation import (
    BALANCE_SECONDS_MAX,
    Cluster,
    client,
    complete,
    expect_none_refused,
    node_name,
)
from ops.chaos.environment.nodes import NodeError
from ops.chaos.environment.processes import active_process
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, Outcome
from ops.supervision.control import restart
from stanchion import StanchionError, money

FIRST_GOOD_MS_MAX: Final = 2500.0
"""Only pings can detect that a node has died: 1 s of silence, then a takeover."""
RELAYED: Final = "SELECT txid::text FROM relay_progress WHERE lane = 'events'"
ONCE_SECONDS_MAX: Final = 5.0


async def join(cluster: Cluster) -> Outcome:
    """A node joins: it gets hosts and servers, and shards move to it while they are in use."""
    began = time.monotonic()
    cluster.spare.append(await asyncio.to_thread(cluster.ray.join))
    joined = time.monotonic()
    await cluster.balanced(len(cluster.spare))
    outcome = Outcome(time.monotonic() - joined)
    await complete(cluster)
    expect_none_refused(cluster, began, outcome)
    return outcome


async def restart_all(cluster: Cluster) -> Outcome:
    """``stanchion restart``: all processes are new afterwards, and no decision had an unknown outcome."""
    before, began = await complete(cluster), time.monotonic()
    await restart(cluster.installation.var_dir, lambda line: print(f"         {line}", flush=True))
    outcome = Outcome(time.monotonic() - began)
    after = await complete(cluster)
    # Nodes with their own process tables may reuse a process id by chance.
    kept = [name for name, pid in after.items() if before.get(name) == pid]
    outcome.expect(not kept, f"{kept} were not restarted")
    outcome.expect(len(after) == len(before), f"{len(after)} processes instead of {len(before)}")
    expect_none_refused(cluster, began, outcome)
    return outcome


async def drain(cluster: Cluster) -> Outcome:
    """The newest node is drained and stopped, as CLUSTER.md describes."""
    before = await cluster.loads()
    node = cluster.spare[-1]
    name = node_name(node)
    began = time.monotonic()
    failure = ""
    try:
        await asyncio.to_thread(cluster.ray.drained, node)
    except NodeError as reason:
        failure = str(reason)
    outcome = Outcome(time.monotonic() - began)
    outcome.expect(not failure, failure)
    outcome.expect(name in before and name not in await cluster.loads(), "the node still owns shards")
    expect_none_refused(cluster, began, outcome)
    await asyncio.to_thread(cluster.spare.pop().leave)
    await cluster.balanced(len(cluster.spare))
    return outcome


async def kill(cluster: Cluster) -> Outcome:
    """All processes of a node die at once: of the one with the relay. Figure: milliseconds until its last
    card is answered."""
    relay = await asyncio.to_thread(active_process, cluster.record["metrics_url"], "relay")
    cluster.spare.sort(key=lambda each: bool(each.runs(relay)))
    node = node_name(cluster.spare[-1])
    owned = {host for host, where in (await cluster.hosts()).items() if where == node}
    rows = await cluster.rows("SELECT shard, host FROM shards")
    shards = {row["shard"] for row in rows if row["host"] in owned}
    terminals = [
        terminal for terminal in cluster.crowd.terminals if shard_of(terminal.plastic.card_id) in shards
    ]
    if not terminals:
        raise NotInjectedError("the node had no cards")
    killing = asyncio.create_task(asyncio.to_thread(cluster.spare.pop().kill))
    returning = asyncio.create_task(_wait_once_back(cluster, killing))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    operations = await asyncio.gather(*(terminal.purchase() for terminal in terminals))
    waits = sorted(1000 * ((each.ended or 0.0) - began) for each in operations if each.outcome == "ok")
    outcome = Outcome(waits[-1] if waits else 1000 * ANSWER_SECONDS_MAX)
    outcome.expect(len(waits) == len(terminals), "a card was not answered")
    await killing
    await cluster.balanced(len(cluster.spare))
    await returning
    return outcome


async def once_back(cluster: Cluster) -> Outcome:
    """The return of the processes that exist once, after ``kill`` of their node."""
    if cluster.once_seconds is None:
        raise NotInjectedError("no node was killed")
    return Outcome(cluster.once_seconds)


async def _wait_once_back(cluster: Cluster, killing: asyncio.Task[int]) -> None:
    """Wait until a relay advances, and a simulated network accepts a spend."""
    began = time.monotonic()
    await asyncio.shield(killing)
    async with asyncio.timeout(BALANCE_SECONDS_MAX):
        await asyncio.gather(_relayed(cluster), _accepted(cluster))
    cluster.once_seconds = time.monotonic() - began


async def _relayed(cluster: Cluster) -> None:
    (before,) = await cluster.rows(RELAYED)
    while (await cluster.rows(RELAYED))[0] == before:  # noqa: ASYNC110 -- another process changes it
        await asyncio.sleep(0.05)
    print(f"         the relay is back at {time.strftime('%H:%M:%S')}", flush=True)


async def _accepted(cluster: Cluster) -> None:
    card_id = cluster.crowd.terminals[0].plastic.card_id

    def spend() -> bool:
        try:
            with client(cluster.record) as api:
                api.simulations.spend(
                    card_id=card_id,
                    amount=money("0.01", "EUR"),
                    mcc="5411",
                    merchant_name="Corner shop",
                    channel="pos",
                )
        except StanchionError:
            return False
        return True

    while not await asyncio.to_thread(spend):  # noqa: ASYNC110 -- the API is asked
        await asyncio.sleep(0.05)
    print(f"         the simulated network is back at {time.strftime('%H:%M:%S')}", flush=True)
