"""Filters of lists over a long history: `python -m loadtests.filters`.

Two tenants of an installation get a million transactions each, with ledger entries. Then every combination of
the filters of one tenant is asked for, with frequent and with rare values: its first page, and the page after
it. A second pass reads the plans of all statements (``auto_explain``). The exit status is 1 if a page takes
longer than ``PAGE_MS_MAX``, reads more than ``ROWS_MAX`` rows, or reads a whole table.

The test `tests/api/transactions/test_filters.py` shows the rows and buffers that a page reads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import asyncpg
import msgspec

from loadtests.figures import percentile
from loadtests.generators.filter_queries import Query, entry_filters, queries, transaction_filters
from loadtests.generators.history import Life, fill, life_of
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.explained import Plans, Reading, explained
from loadtests.harness.front import dsn_of
from loadtests.options import count
from loadtests.reports.command import measure, parser
from loadtests.reports.text import measured_on, table
from stanchion import Client, StanchionError

ROWS: Final = 1_000_000
FILL_SECONDS_MAX: Final = 3_600.0
MARK: Final = "filters"
PAGE_MS_MAX: Final = 20.0
"""Target for one page, in milliseconds."""
ROWS_MAX: Final = 10_000
"""Rows of the table that one page may read: five times ``PAGE_SCAN_MAX``."""
TIMES: Final = 7
"""Repetitions of a page that took longer than the target; their median counts."""
SHOWN: Final = 5
RENEWALS: Final = 20
"""Requests that may fail while the API gets new sessions."""


class Page(msgspec.Struct, kw_only=True):
    """One page of one list."""

    path: str
    query: Query
    rows: int
    milliseconds: float
    reading: Reading = msgspec.field(default_factory=Reading)

    @property
    def named(self) -> str:
        """The filters without ids of objects."""
        return " ".join(f"{name}={value[:20]}" for name, value in self.query.items()) or "none"


class List(msgspec.Struct, frozen=True):
    """A list of the API, the table of its rows, and its queries."""

    path: str
    table: str
    queries: list[Query]


def lists(client: Client, life: Life) -> list[List]:
    """The lists with all combinations of their filters."""
    entries = [each for each in queries(entry_filters(client, life)) if set(each) - {"from", "to"}]
    transactions = list(queries(transaction_filters(client, life)))
    return [
        List("/v1/transactions", "transactions", transactions),
        List("/v1/ledger-entries", "ledger_entries", entries),
    ]


async def fill_tenants(dsn: str, lives: list[Life], rows: int, *, entries: int = 0) -> None:
    """Give the tenant of each of ``lives`` that many transactions, the first ``entries`` with ledger
    entries."""
    connection = await asyncpg.connect(dsn)
    try:
        for life in lives:
            await fill(connection, life, rows, FILL_SECONDS_MAX, entries=entries)
        for name in ("transaction_rows", "journal_rows", "ledger_entries"):
            await connection.execute(f"VACUUM (ANALYZE) {name}", timeout=FILL_SECONDS_MAX)
    finally:
        await connection.close()


def clients_of(run: dict[str, Any]) -> list[Client]:
    """Clients of two tenants in test mode."""
    admins = [each for each in run["tenants"] if (each["mode"], each["role"]) == ("test", "admin")]
    return [Client(run["base_url"], each["client_id"], each["client_secret"]) for each in admins[:2]]


def pages(client: Client, listed: List, times: int = TIMES) -> Iterator[Page]:
    """The first page of each query, and the second one if there is one. A page that takes longer than the
    target is asked for ``times`` times."""
    for query in listed.queries:
        answer, milliseconds = _timed(client, listed.path, query, times)
        yield _page(listed.path, query, answer, milliseconds)
        if answer["has_more"]:
            after = query | {"starting_after": answer["next_cursor"]}
            yield _page(listed.path, after, *_timed(client, listed.path, after, times))


def _page(path: str, query: Query, answer: dict[str, Any], milliseconds: float) -> Page:
    return Page(path=path, query=query, rows=len(answer["data"]), milliseconds=milliseconds)


def _timed(client: Client, path: str, query: Query, times: int) -> tuple[dict[str, Any], float]:
    """The answer and the milliseconds; the median if the first time is above the target."""
    taken: list[float] = []
    while not taken or (taken[0] > PAGE_MS_MAX and len(taken) < times):
        began = time.perf_counter()
        answer = client.request("GET", path, query=query)
        taken.append((time.perf_counter() - began) * 1000)
    return answer, median(taken)


def explain(client: Client, listed: List, plans: Plans) -> Iterator[Page]:
    """The same pages with the rows that their statements have read."""
    _renew(client, listed.path, listed.queries[0])
    plans.take(listed.table)
    # Each page once: rows are added up over all statements.
    for page in pages(client, listed, times=1):
        page.reading = plans.take(listed.table)
        yield page


def _renew(client: Client, path: str, query: Query) -> None:
    """Ask until the API has new sessions. Raises StanchionError."""
    for number in range(RENEWALS):
        try:
            client.request("GET", path, query=query)
        except StanchionError:
            if number == RENEWALS - 1:
                raise
            time.sleep(0.5)


async def run(folder: Path, rows: int) -> tuple[str, list[str]]:
    """Everything, on an installation in ``folder``: the report and the faults."""
    installation, dsn = Installation(folder / "var", {}), ""
    clients = clients_of(await installation.start())
    try:
        lives, dsn = [life_of(client) for client in clients], dsn_of(folder / "var")
        began = time.monotonic()
        await fill_tenants(dsn, lives, rows, entries=rows)
        _say(f"{rows:,} transactions of each tenant made in {time.monotonic() - began:.0f} s")
        every = lists(clients[0], lives[0])
        timed = [page for listed in every for page in pages(clients[0], listed)]
        _say(f"{len(timed):,} pages timed")
        async with explained(dsn, folder / "var") as plans:
            read = [page for listed in every for page in explain(clients[0], listed, plans)]
    finally:
        await installation.stop()
    if not all(page.reading.scans for page in read[:1]):
        raise ChildError("the plans were not logged")
    return _report(rows, every, timed, read), _faults(timed, read)


def _faults(timed: list[Page], read: list[Page]) -> list[str]:
    slow = [page for page in timed if page.milliseconds > PAGE_MS_MAX]
    faults = [f"{page.path} {page.named}: {page.milliseconds:.1f} ms" for page in slow]
    for page in read:
        if page.reading.rows > ROWS_MAX or "Seq Scan" in page.reading.scans:
            scans = ", ".join(sorted(page.reading.scans))
            faults.append(f"{page.path} {page.named}: {page.reading.rows:,} rows by {scans}")
    return faults


def _report(rows: int, every: list[List], timed: list[Page], read: list[Page]) -> str:
    head = ("list", "combinations", "pages", "p50 ms", "p99 ms", "slowest ms", "most rows read")
    lines = []
    for listed in every:
        times = [page.milliseconds for page in timed if page.path == listed.path]
        most = max(page.reading.rows for page in read if page.path == listed.path)
        figures = (percentile(times, 0.5), percentile(times, 0.99), max(times))
        shown = (f"{value:.1f}" for value in figures)
        lines.append((listed.path, f"{len(listed.queries):,}", f"{len(times):,}", *shown, f"{most:,}"))
    slowest = sorted(timed, key=lambda page: -page.milliseconds)[:SHOWN]
    scans = sorted({scan for page in read for scan in page.reading.scans})
    return "\n\n".join(
        (
            f"{measured_on()} {rows:,} transactions, beside a tenant with as many.",
            table(head, lines),
            table(
                ("slowest pages", "rows", "ms"),
                [
                    (f"`{page.path}` {page.named}", str(page.rows), f"{page.milliseconds:.1f}")
                    for page in slowest
                ],
            ),
            f"Scans in the plans: {', '.join(scans)}.",
        )
    )


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    options = parser(MARK, __doc__)
    options.add_argument("--rows", type=count, default=ROWS, help=f"transactions of each tenant [{ROWS}]")
    return measure(MARK, options, arguments, lambda folder, given: run(folder, given.rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
