"""Bytes for each decision: `python -m loadtests.storage`.

It counts the rows, the bytes of rows and indexes, and the bytes of log that plain approvals add: an
authorization over ISO 8583 with its hold and its two events. Sizes are those of the files before the first
and after the last decision, so other load on the machine changes nothing. It is not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from loadtests.generators.http import HttpError
from loadtests.generators.wire import WireLoad
from loadtests.harness.checkout import Checkout, CheckoutError, check_out, find_commit
from loadtests.harness.children import ChildError, Helper, one_line
from loadtests.harness.front import Front
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.slices import TableBytes, growth
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.harness.systems import OURS, System
from loadtests.options import count
from loadtests.reports.publish import NoMarksError, check_marks, insert_found
from loadtests.reports.stored import Stored, text

CARDS: Final = 1_000
CONNECTIONS: Final = 4
IN_FLIGHT: Final = 128
PRIMING_ROUNDS: Final = 5
"""Decisions of each card before the measured ones."""
POLL_SECONDS: Final = 0.05
LOAD_SECONDS_MAX: Final = 600.0
SECTIONS: Final = ("storage",)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.storage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--decisions",
        type=count,
        default=20_000,
        help="decisions to measure; with few, the unused rest of the last pages counts [%(default)s]",
    )
    parser.add_argument("--cards", type=count, default=CARDS, help="cards to draw from [%(default)s]")
    parser.add_argument("--against", metavar="COMMIT", help="also measure this commit of the repository")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="put the text between the marks of this document, too"
    )
    return parser.parse_args(given)


async def run(options: argparse.Namespace, folder: Path, checkout: Checkout | None) -> list[Stored]:
    """Measure the present code, and the earlier commit if there is one. Raises ChildError or HttpError."""
    plan = ServerPlan(cards=options.cards)
    async with BenchServers(folder, plan, checkout=checkout) as servers:
        found = [await stored(OURS, servers, servers.ours, options.decisions)]
        if servers.earlier is not None:
            earlier = servers.earlier
            found.append(await stored(earlier.system.name, earlier, earlier.system, options.decisions))
        return found


async def stored(name: str, front: Front, system: System, decisions: int) -> Stored:
    """Approve at least ``decisions`` spends and measure what they wrote. Raises ChildError."""
    meter, database = system.log, system.database
    if meter is None or database is None:
        raise ChildError(f"{name}: its database cannot be found")
    # The first decisions make room in the tables whose rows later ones update in place.
    await _approve(front, PRIMING_ROUNDS * len(front.cards))
    rows, sizes = await _counted(meter, database)
    # Counting rows sets hint bits, which are logged, too; so the log is read next to the load.
    begin: int = await meter.ask("log_bytes")
    approved = await _approve(front, decisions)
    end: int = await meter.ask("log_bytes")
    rows_after, sizes_after = await _counted(meter, database)
    return Stored(
        system=name,
        decisions=approved,
        log_bytes=end - begin,
        page_image_bytes=await meter.ask("page_image_bytes", begin=begin, end=end),
        rows={table: rows_after[table] - rows.get(table, 0) for table in rows_after},
        tables=growth(sizes, sizes_after),
    )


async def _counted(meter: Helper, database: str) -> tuple[dict[str, int], TableBytes]:
    """Rows and bytes of each table."""
    rows: dict[str, int] = await meter.ask("table_rows", database=database)
    sizes: TableBytes = await meter.ask("table_bytes", database=database)
    return rows, sizes


async def _approve(front: Front, decisions: int) -> int:
    """The number of approvals, at least ``decisions``. Raises ChildError if a spend was refused or lost."""
    load = WireLoad([front.edge], front.cards, connections=CONNECTIONS, in_flight=IN_FLIGHT)
    await load.start()
    try:
        async with asyncio.timeout(LOAD_SECONDS_MAX):
            while load.answers < decisions:  # noqa: ASYNC110 - an event for each answer would cost more
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise ChildError(f"{load.answers} of {decisions} spends were decided in time") from None
    finally:
        samples = await load.stop()
    if samples.refused or samples.lost:
        raise ChildError(f"{samples.refused} spends were refused and {samples.lost} lost")
    return samples.approved


def main() -> None:
    """Entry point of the command."""
    options = arguments()
    try:
        if options.into is not None:
            check_marks(options.into, SECTIONS)
        commit = None if options.against is None else find_commit(options.against)
        with stoppable("storage"), TemporaryDirectory(prefix="stanchion-bench-") as folder:
            checkout = None if commit is None else check_out(commit, Path(folder) / "clone", _say)
            found = run_until_stopped(run(options, Path(folder), checkout))
    except (NoMarksError, CheckoutError, ChildError, HttpError) as failure:
        raise SystemExit(f"storage: {one_line(failure)}") from None
    print(text(found))
    if options.into is not None:
        day = time.strftime("%Y-%m-%d", time.gmtime())
        insert_found(options.into, {"storage": f"Measured on {day}.\n\n{text(found)}"})


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
