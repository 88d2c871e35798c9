"""Drills on a cluster under load: a node joins, all processes restart, a node is drained, the head dies and
comes back, a node dies. No decision may fail or get lost.

    python -m ops.chaos.cluster [--folder DIR] [--cards 24] [--only WORD]

The drills use the command lines of CLUSTER.md to set the cluster up and to take a node out, with PostgreSQL
and Redis beside it. All nodes run on one machine (``ops.chaos.environment.nodes``), so network partitions
between nodes are not covered.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import structlog

from actors.placement import NODE_LETTERS
from actors.settings import Settings
from actors.vault import Vault
from engine.ids import shard_of
from ops.audit import Finding, audit
from ops.chaos.environment.nodes import NodeError, RayCluster, RayNode
from ops.chaos.environment.processes import active_process, pids_by_role, signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, Fault, Outcome
from ops.chaos.report import ChaosReport
from ops.chaos.traffic.issuing import new_cards, plastics
from ops.chaos.traffic.shoppers import Crowd
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.histories.check import check
from ops.histories.operations import Operation
from ops.supervision.control import restart
from ops.supervision.running_installation import RunningInstallation
from stanchion import Client, RetryPolicy, StanchionError, money

BALANCE_SECONDS_MAX: Final = 60.0
PAUSE_SECONDS: Final = 2.0
FIRST_GOOD_MS_MAX: Final = 2500.0
"""Only pings can detect that a node has died: 1 s of silence, then a takeover."""
BASELINE_SECONDS: Final = 10.0
HEADLESS_SECONDS: Final = 65.0
"""Ray by itself ends nodes whose head is away for a minute."""
HEADLESS_MS_MAX: Final = 100.0
HEADLESS_FIRST_GOOD_MS_MAX: Final = 1500.0
RELAYED: Final = "SELECT txid::text FROM relay_progress WHERE lane = 'events'"
ONCE_SECONDS_MAX: Final = 5.0
MANAGED_SECONDS_MAX: Final = 90.0
HOST_TITLE: Final = "stanchion: host"
EDGE_TITLE: Final = "stanchion: edge"
SERVERS: Final = ("edge", "api-0")
"""Every node has one of each."""
FUNDS: Final = "5000000.00"
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


async def join(cluster: Cluster) -> Outcome:
    """A node joins: it gets hosts and servers, and shards move to it while they are in use."""
    began = time.monotonic()
    cluster.spare.append(await asyncio.to_thread(cluster.ray.join))
    joined = time.monotonic()
    await cluster.balanced(len(cluster.spare))
    outcome = Outcome(time.monotonic() - joined)
    await _complete(cluster)
    _expect_none_refused(cluster, began, outcome)
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
    _expect_none_refused(cluster, began, outcome)
    await asyncio.to_thread(cluster.spare.pop().leave)
    await cluster.balanced(len(cluster.spare))
    return outcome


async def lose_head(cluster: Cluster) -> Outcome:
    """All processes of the head's machine die, the supervisor and a coordinator among them. Figure: 99th
    percentile, in milliseconds, of the answers while Ray has no head."""
    cluster.serving = _serving(cluster)
    # The same load on the same machine, with a head.
    before = time.monotonic()
    await asyncio.sleep(BASELINE_SECONDS)
    print(f"         {_p99_ms(cluster, before):.2f} (ms p99 of the answers before)", flush=True)
    await asyncio.to_thread(cluster.installation.kill)
    await asyncio.to_thread(cluster.ray.kill_head)
    began = time.monotonic()
    await asyncio.sleep(HEADLESS_SECONDS)
    outcome = Outcome(0.0)
    _expect_none_refused(cluster, began, outcome)
    outcome.figure = _p99_ms(cluster, began)
    outcome.expect(_serving(cluster) == cluster.serving, "a process has ended")
    return outcome


def _p99_ms(cluster: Cluster, began: float) -> float:
    """99th percentile of the answers to operations since ``began``."""
    answered = [each for each in cluster.since(began) if each.response_code]
    if not answered:
        raise NotInjectedError("no operation was answered")
    waits = sorted(1000 * ((each.ended or 0.0) - each.began) for each in answered)
    return waits[int(len(waits) * 0.99)]


async def lose_host(cluster: Cluster) -> Outcome:
    """A shard host dies while Ray has no head. Figure: milliseconds until the last of its cards is
    answered."""
    # The owners cannot be told apart by process ids, so every card spends.
    (victim, *_) = cluster.spare[0].named(HOST_TITLE)
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
    await _complete(cluster)
    hosts = 2 * len(cluster.spare)
    outcome = Outcome(0.0)
    ended = cluster.serving - _serving(cluster)
    outcome.expect(not ended, f"{len(ended)} processes were replaced")
    (edge, *_) = cluster.spare[0].named(EDGE_TITLE)
    signal_processes(signal.SIGKILL, [edge])
    async with asyncio.timeout(MANAGED_SECONDS_MAX):
        while True:
            edges = set(cluster.spare[0].named(EDGE_TITLE)) - {edge}
            if edges and len(await cluster.hosts()) >= hosts:
                break
            await asyncio.sleep(0.1)
    await _complete(cluster)
    outcome.figure = time.monotonic() - began
    return outcome


def _serving(cluster: Cluster) -> set[int]:
    """The process ids of hosts and edges of all nodes."""
    titles = (HOST_TITLE, EDGE_TITLE)
    return {pid for node in cluster.spare for title in titles for pid in node.named(title)}


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
            with _client(cluster.record) as api:
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


async def restart_all(cluster: Cluster) -> Outcome:
    """``stanchion restart``: all processes are new afterwards, and no decision had an unknown outcome."""
    before, began = await _complete(cluster), time.monotonic()
    await restart(cluster.installation.var_dir, lambda line: print(f"         {line}", flush=True))
    outcome = Outcome(time.monotonic() - began)
    after = await _complete(cluster)
    # Nodes with their own process tables may reuse a process id by chance.
    kept = [name for name, pid in after.items() if before.get(name) == pid]
    outcome.expect(not kept, f"{kept} were not restarted")
    outcome.expect(len(after) == len(before), f"{len(after)} processes instead of {len(before)}")
    _expect_none_refused(cluster, began, outcome)
    return outcome


DRILLS: Final[tuple[tuple[Fault, Drill], ...]] = (
    (Fault("G3", "a node joins under load", "s until balanced", None), join),
    (Fault("G3", "all processes restarted one by one", "s until all are new", None), restart_all),
    (Fault("G3", "a node is drained under load", "s until drained", None), drain),
    (Fault("G3", "Ray's head lost with its machine", "ms p99 of the answers", HEADLESS_MS_MAX), lose_head),
    (
        Fault(
            "G3",
            "a shard host killed while Ray has no head",
            "ms until the last card is answered",
            HEADLESS_FIRST_GOOD_MS_MAX,
        ),
        lose_host,
    ),
    (Fault("G3", "Ray's head is back", "s until everything is managed", MANAGED_SECONDS_MAX), return_head),
    (
        Fault("G3", "a node is killed under load", "ms until the last card is answered", FIRST_GOOD_MS_MAX),
        kill,
    ),
    (
        Fault("G3", "the killed node's relay and network", "s until they are back", ONCE_SECONDS_MAX),
        once_back,
    ),
)
"""In this order each drill finds the nodes that it needs."""


async def run(folder: Path, cards: int, seed: int, report: ChaosReport, only: str = "") -> None:
    """Run all drills with ``only`` in their names once on a cluster of a head and two nodes, then check the
    history and the books. Raises the errors of the start."""
    with ExitStack() as stack:
        var_dir = folder / "cluster"
        servers = EmbeddedPostgres(folder / "servers"), EmbeddedRedis(folder / "servers")
        for_ray = EmbeddedRedis(folder / "ray")
        for server in (*servers, for_ray):
            server.start()
            stack.callback(server.stop)
        values = _values(var_dir, *servers) | {
            "RAY_REDIS_ADDRESS": f"127.0.0.1:{for_ray.port}",
            "password": for_ray.password,
        }
        ray = stack.enter_context(RayCluster(folder / "nodes", values))
        nodes = [await asyncio.to_thread(ray.join) for _ in range(2)]
        variables = {"STANCHION_AUTO_CLEAR_SECONDS": "0", "PATH": _path()}
        installation = RunningInstallation(var_dir, variables, command=("bash", "-euc", ray.script()))
        try:
            record = await asyncio.to_thread(installation.start)
            crowd = await _crowd(record, var_dir, servers[0].url, cards, seed)
            cluster = Cluster(ray, folder, installation, record, crowd, nodes, servers[0].url)
            try:
                await _drill(cluster, report, only)
            finally:
                await crowd.close()
            report.operations += len(crowd.history.operations)
            for finding in await cluster.findings():
                report.found(finding)
        finally:
            await asyncio.to_thread(installation.stop)


def _values(var_dir: Path, postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> dict[str, str]:
    """Values for the placeholders of CLUSTER.md. One master key is made and given to all nodes."""
    Vault.from_settings(Settings.load(var_dir=var_dir))
    return {
        "STANCHION_MASTER_KEY": (var_dir / "keys/master.key").read_text("ascii").strip(),
        "STANCHION_VAR_DIR": str(var_dir),
        "STANCHION_DATABASE_URL": postgres.url,
        "STANCHION_REDIS_URL": redis.url,
        "STANCHION_VISION_BASE_URL": "https://pages.example.com",
    }


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


async def _drill(cluster: Cluster, report: ChaosReport, only: str) -> None:
    await cluster.balanced(2)
    await cluster.crowd.begin()
    await asyncio.sleep(PAUSE_SECONDS)
    for fault, drill in DRILLS:
        if only not in fault.name:
            continue
        print(f"{time.strftime('%H:%M:%S')} {fault.promise:4} {fault.name}", flush=True)
        try:
            outcome = await drill(cluster)
        except NotInjectedError as reason:
            report.not_injected(fault, str(reason))
        except TimeoutError:
            report.failed(fault, "shards or servers were not in place in time")
        else:
            print(f"         {outcome.figure:.2f} ({fault.unit})", *outcome.broken, flush=True)
            report.injected(fault, outcome)
        await asyncio.sleep(PAUSE_SECONDS)
    await cluster.crowd.end()


def _client(record: dict[str, Any]) -> Client:
    """A client of the API that repeats nothing: drills measure the time until requests succeed."""
    owner = next(each for each in record["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    return Client(
        record["base_url"], owner["client_id"], owner["client_secret"], retry=RetryPolicy(attempts=1)
    )


async def _crowd(record: dict[str, Any], var_dir: Path, dsn: str, cards: int, seed: int) -> Crowd:
    def issue() -> list[str]:
        with _client(record) as api:
            programme = api.programs.create(name="Cluster", currency="EUR")["id"]
            return new_cards(api, programme, cards, funds=FUNDS)

    issued = await asyncio.to_thread(issue)
    connection = await asyncpg.connect(dsn)
    try:
        plastic_cards = await plastics(connection, var_dir, issued)
    finally:
        await connection.close(timeout=10)
    crowd = Crowd((record["iso8583"]["host"], record["iso8583"]["port"]), plastic_cards, seed)
    await crowd.open()
    return crowd


async def _complete(cluster: Cluster) -> dict[str, int]:
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


def node_name(node: RayNode) -> str:
    """The installation's name of a node. Raises NotInjectedError."""
    try:
        return node.id[:NODE_LETTERS]
    except NodeError as reason:
        raise NotInjectedError(str(reason)) from None


def _expect_none_refused(cluster: Cluster, began: float, outcome: Outcome) -> None:
    """Expect that no operation since ``began`` had an unknown outcome."""
    operations = cluster.since(began)
    if not operations:
        raise NotInjectedError("no operation ran during the fault")
    refused = [each for each in operations if (each.response_code or "") in UNKNOWN_OUTCOMES]
    outcome.expect(not refused, f"{len(refused)} of {len(operations)} were refused")


def main() -> None:
    """Run the drills, print the report, and exit with status 0 only if everything held."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.chaos.cluster", description="Cluster drills under load."
    )
    parser.add_argument("--cards", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", default="", help="keep logs and the database in this folder")
    parser.add_argument("--only", default="", metavar="WORD", help="drills with WORD in their names")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report = ChaosReport(options.seed)
    with tempfile.TemporaryDirectory(prefix="stanchion-cluster-") as temporary:
        folder = Path(options.folder or temporary)
        asyncio.run(run(folder, options.cards, options.seed, report, options.only))
    report.show()
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
