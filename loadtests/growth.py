"""How cost grows: `python -m loadtests.growth`.

The same decisions are measured while one dimension grows: cards, one card's history, shard hosts, undelivered
events, open holds on one account (``loadtests.holds``), the history that a back-test lives again
(``loadtests.relived``). Cards are inserted with COPY (``ops.bench.filling``),
histories are made by real decisions, and each number of hosts is a separate installation, whose start is
timed. It is not a test.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Final

from loadtests.figures import Slice
from loadtests.generators.http import HttpError
from loadtests.generators.wire import WireLoad
from loadtests.generators.workload import SALE
from loadtests.harness.children import ChildError, Helper, one_line
from loadtests.harness.footprint import idle_cpu
from loadtests.harness.helper_load import HelperLoad
from loadtests.harness.machine import fsync_ms, machine
from loadtests.harness.metrics import scrape
from loadtests.harness.processes import resident_bytes
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.slices import measure
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.holds import holds_series
from loadtests.options import count, positive
from loadtests.relived import relived_series
from loadtests.reports.grown import Grown, Point, Series
from loadtests.reports.publish import FOLDER, NoMarksError, check_marks, insert_found, write

CARDS: Final = (1_000, 10_000, 100_000, 1_000_000)
HISTORY: Final = (0, 1_000, 10_000, 100_000)
HOSTS: Final = (1, 2, 4, 8)
EVENTS: Final = (0, 10_000, 100_000, 1_000_000)
HOLDS: Final = (10, 1_000, 100_000)
RELIVED: Final = (100, 1_000, 10_000)
WORKING_SET: Final = 1_000
COLD_SET: Final = 20_000
"""Cards of one cold slice, each used once: more than one slice can decide."""
LOOKED_AT: Final = 20_000
"""Cards whose balances are read, to measure the memory of an active card."""
FUNDS_MINOR: Final = 100_000_000_000
IN_FLIGHT: Final = 256
FILLED_AT_ONCE: Final = 25_000
LIVED_AT_ONCE: Final = 5_000
PUBLISHED_AT_ONCE: Final = 100_000
"""Batch sizes that a helper completes before its request times out, also on a busy machine."""
WARM_SECONDS: Final = 0.5
FILLED: Final = ("journal_rows", "accounts", "cards", "card_usage", "event_rows")
IDLE_SECONDS: Final = 2.0
HOST_CARDS: Final = 200
PER_SECOND: Final = 200.0
ACTIVE: Final = "stanchion_active_cards"
PUBLISHED: Final = "card_product.created"
SERIES: Final = ("cards", "history", "hosts", "events", "holds", "backtests")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.growth", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=2.5, help="of each point [%(default)s]")
    parser.add_argument("--only", default=",".join(SERIES), metavar="NAME,…", help="[%(default)s]")
    parser.add_argument("--cards", type=counts, default=CARDS, metavar="N,…", help="how many cards there are")
    parser.add_argument("--history", type=counts, default=HISTORY, metavar="N,…", help="commands of one card")
    parser.add_argument("--hosts", type=counts, default=HOSTS, metavar="N,…", help="shard hosts")
    parser.add_argument("--events", type=counts, default=EVENTS, metavar="N,…", help="events not delivered")
    parser.add_argument(
        "--holds", type=counts, default=HOLDS, metavar="N,…", help="open holds on one account"
    )
    parser.add_argument(
        "--backtests", type=counts, default=RELIVED, metavar="N,…", help="purchases of one card, lived again"
    )
    parser.add_argument(
        "--report",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="for growth.md, .json, .html [var/bench]",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="put the text between the marks of this document, too: the report of a run of all series, and "
        "each series between marks of its own",
    )
    return parser.parse_args(given)


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers from zero on, rising, separated by commas. Raises ValueError."""
    numbers = tuple(0 if part == "0" else count(part) for part in text.split(","))
    if list(numbers) != sorted(set(numbers)):
        raise ValueError(text)
    return numbers


class Growing:
    """Points on one installation."""

    def __init__(self, servers: BenchServers, seconds: float, stack: ExitStack) -> None:
        self._servers = servers
        self._seconds = seconds
        self._errors = stack.enter_context((servers.var_dir.parent / "growth.log").open("ab"))
        self._stack = stack

    async def cards(self, sizes: Sequence[int]) -> tuple[Series, Series, dict[str, float]]:
        """Decisions on a thousand cards in memory, and on cards that were never used, while the number of
        cards grows; also the memory of an active card, in bytes."""
        warm, cold = [], []
        memory: dict[str, float] = {}
        unused: list[str] = []
        filled = WORKING_SET
        for size in sizes:
            unused += await self._fill(size - filled)
            filled = max(filled, size)
            warm.append(Point.of(size, await self.slice("cards", self._servers.card_ids)))
            _say(f"  {size:,} cards: {warm[-1].shown()}")
            if len(unused) < COLD_SET + LOOKED_AT:
                continue
            random.shuffle(unused)
            drawn, looked_at, unused = unused[:COLD_SET], unused[-LOOKED_AT:], unused[COLD_SET:-LOOKED_AT]
            memory[f"{size}"] = await self._bytes_each(looked_at)
            cold.append(Point.of(size, await self.slice("cold", drawn, in_turn=True)))
            _say(f"  {size:,} cards, all of them new: {cold[-1].shown()}")
        used = Series("cards", "cards there are, a thousand in use", warm)
        unused_before = Series("cold", "cards there are, each used for the first time", cold)
        return used, unused_before, memory

    async def history(self, lengths: Sequence[int]) -> Series:
        """Decisions on one card while its history grows."""
        card, lived, points = self._servers.card_ids[-1:], 0, []
        for length in lengths:
            # A sale and its presentment are two commands.
            sales = (length - lived) // 2
            if sales > 0:
                await self._live(card, sales)
            lived = length
            found = await self.slice("history", card)
            points.append(Point.of(length, found))
            lived += round(found.approved)
            _say(f"  {length:,} commands of one card: {points[-1].shown()}")
        return Series("history", "commands that one card has behind it, all spends on it", points)

    async def events(self, backlogs: Sequence[int]) -> Series:
        """Decisions at a fixed rate over ISO 8583 while deliveries of events are attempted and refused."""
        # Bound and not listening: the port refuses connections and no other process can take it.
        refusing = self._stack.enter_context(socket.socket())
        refusing.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{refusing.getsockname()[1]}/nobody"
        endpoint = {"url": url, "event_types": [PUBLISHED]}
        await self._servers.api.call("POST", "/v1/webhook-endpoints", endpoint, status=201)
        publisher = await self._servers.helper(
            self._errors, "ops.bench.publisher", str(self._servers.var_dir)
        )
        published, points = 0, []
        for backlog in backlogs:
            while published < backlog:
                part = min(PUBLISHED_AT_ONCE, backlog - published)
                await publisher.ask("publish", count=part)
                published += part
            load = WireLoad([self._servers.edge], self._servers.cards, connections=4, per_second=PER_SECOND)
            found = await self._measure("events", load)
            points.append(Point.of(backlog, found))
            _say(f"  {backlog:,} events published, {await _left(publisher):,} left: {points[-1].shown()}")
        return Series(
            "events", f"events published at once, {PER_SECOND:.0f} decisions a second beside", points
        )

    async def _bytes_each(self, card_ids: list[str]) -> float:
        """Growth of the hosts' memory for each of these cards when it becomes active."""
        before = await self._memory()
        await self._servers.inside.ask("read_balances", cards=card_ids)
        after = await self._memory()
        return (after[0] - before[0]) / max(1.0, after[1] - before[1])

    async def _fill(self, missing: int) -> list[str]:
        made: list[str] = []
        while len(made) < missing:
            part = min(FILLED_AT_ONCE, missing - len(made))
            asked = {"like": self._servers.card_ids[0], "count": part, "funds_minor": FUNDS_MINOR}
            made += await self._servers.inside.ask("fill_cards", **asked)
        # Otherwise autovacuum and the checkpointer would run while decisions are measured.
        for table in FILLED if made else ():
            await self._servers.inside.ask("vacuum", table=table)
        return made

    async def _live(self, card: list[str], sales: int) -> None:
        for begin in range(0, sales, LIVED_AT_ONCE):
            part = min(LIVED_AT_ONCE, sales - begin)
            await self._servers.inside.ask("make_history", cards=card, sale=SALE, sales=part)

    async def slice(self, name: str, card_ids: list[str], in_turn: bool = False) -> Slice:
        """Spends on ``card_ids``, drawn at random or in turn."""
        load = HelperLoad([self._servers.inside], card_ids, IN_FLIGHT, in_turn=in_turn)
        return await self._measure(name, load)

    async def _measure(self, name: str, load: Any) -> Slice:
        return await measure(
            name,
            self._servers.ours,
            load,
            warm_seconds=WARM_SECONDS,
            seconds=self._seconds,
        )

    async def _memory(self) -> tuple[int, float]:
        """Resident memory of all shard hosts, and the number of their active cards."""
        pids = [pid for pid, label in self._servers.ours.labels.items() if label == "hosts"]
        page = await scrape(self._servers.run["metrics_url"])
        return resident_bytes(pids), page.totals.get(ACTIVE, 0.0)


async def _left(publisher: Helper) -> int:
    left: int = await publisher.ask("left")
    return left


async def run(options: argparse.Namespace, folder: Path) -> Grown:
    """Measure the series that ``options`` name."""
    wanted = [name for name in options.only.split(",") if name]
    grown = Grown(machine=machine(), fsync_ms=fsync_ms(folder), seconds=options.seconds)
    began = time.monotonic()
    if "holds" in wanted:
        grown.series.append(holds_series(options.holds, options.seconds))
    if "backtests" in wanted:
        grown.series.append(relived_series(options.backtests, options.seconds))
    jobs: list[Callable[[], Awaitable[None]]] = []
    if "hosts" in wanted:
        jobs.append(partial(_hosts, grown, options, folder))
    if {"cards", "history", "events"} & set(wanted):
        jobs.append(partial(_on_one_installation, grown, options, wanted, folder))
    for job in jobs:
        try:
            await job()
        except (ChildError, HttpError) as failure:
            # The measurements so far are still reported.
            grown.failures.append(one_line(failure))
    grown.machine["minutes"] = f"{(time.monotonic() - began) / 60:.1f}"
    return grown


async def _hosts(grown: Grown, options: argparse.Namespace, folder: Path) -> None:
    """An installation for each number of hosts."""
    series = [
        Series("hosts", "shard hosts", []),
        Series("start", "shard hosts", [], "seconds from an empty folder to serving"),
        Series("idle", "shard hosts", [], "% of one core without load"),
        Series("memory", "shard hosts", [], "MB resident, all our own processes"),
    ]
    grown.series += series
    for hosts in options.hosts:
        where = Path(mkdtemp(dir=folder))
        plan = ServerPlan(cards=HOST_CARDS, rival_processes=0)
        settings = {"STANCHION_HOSTS": str(hosts), "STANCHION_RESERVE_HOSTS": "0"}
        async with BenchServers(where, plan, settings) as servers:
            shares = await idle_cpu(servers.ours, IDLE_SECONDS)
            with ExitStack() as stack:
                here = Growing(servers, options.seconds, stack)
                found = Point.of(hosts, await here.slice("hosts", servers.card_ids))
            resident = resident_bytes(servers.ours.labels) / 2**20
            values = (servers.start_seconds, sum(shares.values()) * 100, resident)
            points = [found, *(Point(hosts, value) for value in values)]
            for each, point in zip(series, points, strict=True):
                each.points.append(point)
            _say(f"  {hosts} hosts: {found.shown()}, started in {servers.start_seconds:.1f} s")


async def _on_one_installation(
    grown: Grown, options: argparse.Namespace, wanted: list[str], folder: Path
) -> None:
    where = Path(mkdtemp(dir=folder))
    plan = ServerPlan(cards=WORKING_SET, rival_processes=0)
    async with BenchServers(where, plan, {"STANCHION_EGRESS_ALLOW": "127.0.0.1/32"}) as servers:
        with ExitStack() as stack:
            here = Growing(servers, options.seconds, stack)
            if "history" in wanted:
                grown.series.append(await here.history(options.history))
            if "cards" in wanted:
                warm, cold, memory = await here.cards(options.cards)
                grown.series += [warm, cold]
                grown.bytes_per_active_card = memory
            if "events" in wanted:
                grown.series.append(await here.events(options.events))


def main() -> None:
    """Entry point of the command."""
    options = arguments()
    unknown = set(filter(None, options.only.split(","))) - set(SERIES)
    if unknown:
        raise SystemExit(
            f"growth: no such series: {', '.join(sorted(unknown))}; known are {', '.join(SERIES)}"
        )
    whole = set(SERIES) <= set(options.only.split(","))
    if options.into is not None:
        try:
            check_marks(options.into, ("growth", *(f"growth-{name}" for name in SERIES)))
        except NoMarksError as wrong:
            raise SystemExit(f"growth: {wrong}") from None
    with stoppable("growth"), TemporaryDirectory(prefix="stanchion-bench-") as folder:
        grown = run_until_stopped(run(options, Path(folder)))
    print(f"\n{grown.text()}")
    files = write(options.report, "growth", grown.text(), grown.json(), grown.page())
    _say(f"Written: {', '.join(map(str, files))}")
    if options.into is not None:
        insert_found(options.into, grown.sections() | {"growth": grown.text() if whole else ""})
    if grown.failures:
        raise SystemExit(f"growth: {'; '.join(grown.failures)}")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
