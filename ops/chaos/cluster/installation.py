"""The cluster of the drills: an installation on several nodes under load, and what drills ask of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg

from actors.placement import NODE_LETTERS
from ops.audit import Finding, audit
from ops.chaos.environment.nodes import NodeError, RayCluster, RayNode
from ops.chaos.environment.processes import pids_by_role
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Outcome
from ops.chaos.traffic.shoppers import Crowd
from ops.histories.check import check
from ops.histories.operations import Operation
from ops.supervision.running_installation import RunningInstallation
from stanchion import Client, RetryPolicy

BALANCE_SECONDS_MAX: Final = 60.0
SERVERS: Final = ("edge", "api-0")
"""Every node has one of each."""
HOST_TITLE: Final = "stanchion: host"
EDGE_TITLE: Final = "stanchion: edge"
UNKNOWN_OUTCOMES: Final = frozenset({"91", "96", "timeout"})


@dataclass
class Cluster:
    """An installation on several nodes, and its load. ``spare``: the nodes with hosts, newest last."""

    ray: RayCluster
    folder: Path
    installation: RunningInstallation
    record: dict[str, Any]
    crowd: Crowd
    spare: list[RayNode] = field(default_factory=list)
    dsn: str = ""
    serving: set[int] = field(default_factory=set)
    """The hosts and edges that have to outlive the head."""
    once_seconds: float | None = None
    """From the death of a node to the return of the processes that exist once."""

    async def hosts(self) -> dict[str, str]:
        """The node of each host that owns shards."""
        rows = await self.rows("SELECT DISTINCT host FROM shards WHERE host IS NOT NULL")
        return {row["host"]: row["host"].split("-")[1] for row in rows}

    async def loads(self) -> dict[str, int]:
        """The number of shards of each node."""
        rows = await self.rows("SELECT split_part(host, '-', 2) AS node, count(*) FROM shards GROUP BY 1")
        return {row["node"]: row["count"] for row in rows}

    async def balanced(self, nodes: int) -> float:
        """Wait until ``nodes`` nodes own equal numbers of shards; returns the seconds that it took. Raises
        TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(BALANCE_SECONDS_MAX):
            while True:
                loads = await self.loads()
                if len(loads) == nodes and max(loads.values()) - min(loads.values()) <= nodes:
                    return time.monotonic() - began
                await asyncio.sleep(0.1)

    async def findings(self) -> list[Finding]:
        """The findings of the history and of the audit."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return [*await check(connection, self.crowd.history.operations), *await audit(self.dsn)]
        finally:
            await connection.close(timeout=10)

    def since(self, began: float) -> list[Operation]:
        """Finished operations that began at or after ``began``."""
        return [each for each in self.crowd.history.operations if each.began >= began and each.ended]

    async def rows(self, sql: str) -> list[asyncpg.Record]:
        """The rows of a statement."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close(timeout=10)


Drill = Callable[[Cluster], Awaitable[Outcome]]


async def complete(cluster: Cluster) -> dict[str, int]:
    """Process ids by name, as soon as every node that owns shards has its servers; these start after its
    hosts. Raises TimeoutError."""
    nodes = len(await cluster.loads())
    async with asyncio.timeout(BALANCE_SECONDS_MAX):
        while True:
            pids = await _pids(cluster)
            if all(sum(name.startswith(kind) for name in pids) == nodes for kind in SERVERS):
                return pids
            await asyncio.sleep(0.1)


async def _pids(cluster: Cluster) -> dict[str, int]:
    return await asyncio.to_thread(pids_by_role, cluster.record["metrics_url"])


def serving(cluster: Cluster) -> set[int]:
    """The process ids of hosts and edges of all nodes."""
    titles = (HOST_TITLE, EDGE_TITLE)
    return {pid for node in cluster.spare for title in titles for pid in node.named(title)}


def node_name(node: RayNode) -> str:
    """The installation's name of a node. Raises NotInjectedError."""
    try:
        return node.id[:NODE_LETTERS]
    except NodeError as reason:
        raise NotInjectedError(str(reason)) from None


def p99_ms(cluster: Cluster, began: float) -> float:
    """99th percentile of the answers to operations since ``began``."""
    answered = [each for each in cluster.since(began) if each.response_code]
    if not answered:
        raise NotInjectedError("no operation was answered")
    waits = sorted(1000 * ((each.ended or 0.0) - each.began) for each in answered)
    return waits[int(len(waits) * 0.99)]


def expect_none_refused(cluster: Cluster, began: float, outcome: Outcome) -> None:
    """Expect that no operation since ``began`` had an unknown outcome, except repeats of messages that
    had one before."""
    operations = cluster.since(began)
    if not operations:
        raise NotInjectedError("no operation ran during the fault")
    unknown = [each for each in operations if (each.response_code or "") in UNKNOWN_OUTCOMES]
    refused = cluster.crowd.history.unanswered_before(began, unknown)
    outcome.expect(not refused, f"{len(refused)} of {len(operations)} were refused")


def client(record: dict[str, Any]) -> Client:
    """A client of the API that repeats nothing: drills measure the time until requests succeed."""
    owner = next(each for each in record["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    return Client(
        record["base_url"], owner["client_id"], owner["client_secret"], retry=RetryPolicy(attempts=1)
    )
