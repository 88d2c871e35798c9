"""Ten thousand holds and sales that fall due at once: `python -m loadtests.due`.

Hosts sweep expired holds, and the simulated network presents due sales, in bounded steps beside live traffic.
An installation of its own gets ten thousand of each, one statement makes all of them due, and decisions at a
fixed rate are timed before it and while the backlog drains. It is not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import asyncpg
import msgspec

from loadtests.figures import percentile
from loadtests.generators.http import HttpError
from loadtests.generators.rest import SpendLoad
from loadtests.generators.wire import WireLoad
from loadtests.harness.children import ChildError
from loadtests.harness.machine import machine
from loadtests.harness.metrics import scrape
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.options import count

CARDS: Final = 500
DECISIONS_PER_SECOND: Final = 50.0
QUIET_SECONDS: Final = 5.0
DRAIN_SECONDS_MAX: Final = 600.0
POLL_SECONDS: Final = 0.2
IN_FLIGHT: Final = 256
CONNECTIONS: Final = 4
REST_CONNECTIONS: Final = 32

_OF_HOST: Final = (
    "state = 'held' AND get_byte(uuid_send(card_id), 15) IN (SELECT shard FROM shards WHERE host = '{host}')"
)
_HOLDS_OF: Final = f"SELECT count(*) FROM holds WHERE {_OF_HOST}"
_HOLDS_DUE: Final = "SELECT count(*) FROM holds WHERE state = 'held' AND expires_at <= now()"
_SALES: Final = "SELECT count(*) FROM clearing_schedule WHERE due_at IS NOT NULL"
_HOLDS_NOW: Final = f"UPDATE holds SET expires_at = now() WHERE {_OF_HOST}"
_SALES_NOW: Final = "UPDATE clearing_schedule SET due_at = now() WHERE due_at IS NOT NULL"


class Drained(msgspec.Struct, frozen=True):
    """The figures of one backlog; latencies are those of decisions beside it."""

    title: str
    count: int
    seconds: float
    quiet_p50_ms: float
    quiet_p99_ms: float
    beside_p50_ms: float
    beside_p99_ms: float


class DueBench:
    """Both backlogs on one installation."""

    def __init__(
        self, servers: BenchServers, database: asyncpg.Connection[asyncpg.Record], wanted: int
    ) -> None:
        self._servers = servers
        self._database = database
        self._wanted = wanted

    async def holds(self) -> Drained:
        """Expire holds in the database. Their owner has the old expiries in memory, so it is killed in the
        same step: the other host takes its cards over and reads the changed rows."""
        load = WireLoad(
            [self._servers.edge], self._servers.cards, connections=CONNECTIONS, in_flight=IN_FLIGHT
        )
        page = await scrape(self._servers.run["metrics_url"])
        victim = min(name for name in page.processes if name.startswith("host-"))
        await self._fill(load.start, load.stop, _HOLDS_OF.format(host=victim))

        async def fall_due() -> None:
            await self._database.execute(_HOLDS_NOW.format(host=victim))
            os.kill(page.processes[victim], signal.SIGKILL)

        return await self._drain("holds past their expiry, of a host that has died", _HOLDS_DUE, fall_due)

    async def sales(self) -> Drained:
        """Make the presentments of approved sales due."""
        load = SpendLoad(self._servers.api, self._servers.card_ids, REST_CONNECTIONS)
        await self._fill(load.start, load.stop, _SALES)

        async def fall_due() -> None:
            await self._database.execute(_SALES_NOW)

        return await self._drain("sales to be presented", _SALES, fall_due)

    async def _fill(
        self, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[object]], sql: str
    ) -> None:
        await start()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if await self._database.fetchval(sql) >= self._wanted:
                break
        await stop()

    async def _drain(self, title: str, sql: str, fall_due: Callable[[], Awaitable[None]]) -> Drained:
        quiet = await self._timed(asyncio.sleep(QUIET_SECONDS))
        began = time.monotonic()
        due: list[int] = []

        async def drained() -> None:
            await fall_due()
            due.append(await self._database.fetchval(sql))
            while left := await self._database.fetchval(sql):
                if time.monotonic() - began > DRAIN_SECONDS_MAX:
                    raise ChildError(f"{left} {title} are left")
                await asyncio.sleep(POLL_SECONDS)

        beside = await self._timed(drained())
        return Drained(title, due[0], time.monotonic() - began, *quiet, *beside)

    async def _timed(self, meanwhile: Awaitable[None]) -> tuple[float, float]:
        """p50 and p99, in milliseconds, of decisions at the fixed rate while ``meanwhile`` runs."""
        load = WireLoad(
            [self._servers.edge],
            self._servers.cards,
            connections=CONNECTIONS,
            per_second=DECISIONS_PER_SECOND,
        )
        await load.start()
        try:
            await meanwhile
        finally:
            samples = await load.stop()
        waits = [1000 * (done - begun) for begun, done in zip(samples.started, samples.done, strict=True)]
        return percentile(waits, 0.5), percentile(waits, 0.99)


async def run(options: argparse.Namespace, folder: Path) -> list[Drained]:
    """Both, one after the other."""
    _say("Starting an installation and its cards ...")
    plan = ServerPlan(cards=options.cards, rival_processes=0)
    # A day: automatic clearing begins only when this benchmark makes the sales due.
    async with BenchServers(folder, plan, {"STANCHION_AUTO_CLEAR_SECONDS": "86400"}) as servers:
        embedded = msgspec.json.decode((folder / "var" / "servers.json").read_bytes())
        database = await asyncpg.connect(embedded["database_url"])
        try:
            bench = DueBench(servers, database, options.count)
            found = []
            for work in (bench.sales, bench.holds):
                found.append(await work())
                _say(f"  {found[-1].count:,} {found[-1].title}: {found[-1].seconds:.1f} s")
            return found
        finally:
            database.terminate()


def text(found: list[Drained]) -> str:
    """The report, as Markdown."""
    head = [
        "| due at once | count | drained in s | each second | decisions before, p50, p99 ms | beside it |",
        "|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {each.title} | {each.count:,} | {each.seconds:.1f} | {each.count / each.seconds:,.0f}"
        f" | {each.quiet_p50_ms:.1f}, {each.quiet_p99_ms:.1f}"
        f" | {each.beside_p50_ms:.1f}, {each.beside_p99_ms:.1f} |"
        for each in found
    ]
    return "\n".join((*head, *rows))


def main() -> None:
    """Entry point of the command."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.due", description=__doc__)
    parser.add_argument("--count", type=count, default=10_000, help="of each [%(default)s]")
    parser.add_argument("--cards", type=count, default=CARDS, help="over which they are spread [%(default)s]")
    options = parser.parse_args()
    about = machine()
    with stoppable("due"), TemporaryDirectory(prefix="stanchion-bench-") as folder:
        try:
            found = run_until_stopped(run(options, Path(folder)))
        except (ChildError, HttpError) as failure:
            raise SystemExit(f"due: {failure}") from None
    print("\n".join(f"- {name}: {value}" for name, value in about.items()) + "\n")
    print(text(found))


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
