"""All drills in order, and a run of them on a new cluster of a head and two nodes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import asyncpg

from actors.settings import Settings
from actors.vault import Vault
from ops.chaos.cluster.head_drills import (
    HEADLESS_FIRST_GOOD_MS_MAX,
    HEADLESS_MS_MAX,
    MANAGED_SECONDS_MAX,
    lose_head,
    lose_host,
    return_head,
)
from ops.chaos.cluster.installation import (
    Cluster,
    Drill,
    client,
)
from ops.chaos.cluster.node_drills import (
    FIRST_GOOD_MS_MAX,
    ONCE_SECONDS_MAX,
    drain,
    join,
    kill,
    once_back,
    restart_all,
)
from ops.chaos.environment.nodes import RayCluster
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault
from ops.chaos.report import ChaosReport
from ops.chaos.traffic.issuing import new_cards, plastics
from ops.chaos.traffic.shoppers import Crowd
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.supervision.running_installation import RunningInstallation

SHOPPING_PAUSE_SECONDS: Final = 0.1
"""About 200 operations a second. The nodes of a real cluster have processors of their own; here all of them
share one machine, and more load would measure its queues."""
PAUSE_SECONDS: Final = 2.0
FUNDS: Final = "5000000.00"


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


async def _crowd(record: dict[str, Any], var_dir: Path, dsn: str, cards: int, seed: int) -> Crowd:
    def issue() -> list[str]:
        with client(record) as api:
            programme = api.programs.create(name="Cluster", currency="EUR")["id"]
            return new_cards(api, programme, cards, funds=FUNDS)

    issued = await asyncio.to_thread(issue)
    connection = await asyncpg.connect(dsn)
    try:
        plastic_cards = await plastics(connection, var_dir, issued)
    finally:
        await connection.close(timeout=10)
    address = (record["iso8583"]["host"], record["iso8583"]["port"])
    crowd = Crowd(address, plastic_cards, seed, pause_seconds=SHOPPING_PAUSE_SECONDS)
    await crowd.open()
    return crowd
