"""Filters of the list of transactions over a long history: `python -m loadtests.filters`.

Two tenants of an installation get a million transactions each. Then every filter of one tenant is asked for
several times, and its median time is printed. The test `tests/api/transactions/test_filters.py` shows the
rows and buffers that a page reads.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg

from loadtests.generators.history import (
    FREQUENT_MCC,
    FREQUENT_REASON,
    RARE_MCC,
    RARE_REASON,
    Life,
    fill,
    life_of,
)
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.front import dsn_of
from loadtests.options import count
from stanchion import Client, StanchionError

ROWS: Final = 1_000_000
TIMES: Final = 9
FILL_SECONDS_MAX: Final = 3_600.0


def queries(client: Client, life: Life) -> list[dict[str, str]]:
    """One query for each filter, for frequent and for rare values."""
    frequent, rare = client.cards.get(life.cards[0]), client.cards.get(life.rare_card)
    cards = [{"card_id": card["id"]} for card in (frequent, rare)]
    holders = [{"cardholder_id": card["cardholder_id"]} for card in (frequent, rare)]
    programmes = [{"programme_id": card["programme_id"]} for card in (frequent, rare)]
    values = [{"mcc": FREQUENT_MCC}, {"mcc": RARE_MCC}]
    values += [{"decline_reason": FREQUENT_REASON}, {"decline_reason": RARE_REASON}]
    values += [{"decision": "approved"}, {"decision": "declined"}]
    values += [{"status": each} for each in ("cleared", "reversed", "pending", "declined")]
    values += [{"rrn": "000000012345"}, {"network_txn_id": "none"}]
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    return [{}, *cards, *holders, *programmes, programmes[0] | values[0], *values, window]


async def fill_tenants(dsn: str, lives: list[Life], rows: int) -> None:
    """Give the tenant of each of ``lives`` that many transactions."""
    connection = await asyncpg.connect(dsn)
    try:
        for life in lives:
            await fill(connection, life, rows, FILL_SECONDS_MAX)
        for table in ("transactions", "journal_rows"):
            await connection.execute(f"VACUUM (ANALYZE) {table}", timeout=FILL_SECONDS_MAX)
    finally:
        await connection.close()


def clients_of(run: dict[str, Any]) -> list[Client]:
    """Clients of two tenants in test mode."""
    admins = [each for each in run["tenants"] if (each["mode"], each["role"]) == ("test", "admin")]
    return [Client(run["base_url"], each["client_id"], each["client_secret"]) for each in admins[:2]]


def measure(client: Client, query: dict[str, str]) -> tuple[int, float]:
    """Rows of the first page, and the median of its times in milliseconds."""
    times, rows = [], 0
    for _ in range(TIMES):
        began = time.perf_counter()
        rows = len(client.request("GET", "/v1/transactions", query=query)["data"])
        times.append((time.perf_counter() - began) * 1000)
    return rows, median(times)


async def run(folder: Path, rows: int) -> None:
    """Everything, on an installation in ``folder``."""
    installation = Installation(folder / "var", {})
    clients = clients_of(await installation.start())
    try:
        lives = [life_of(client) for client in clients]
        await fill_tenants(dsn_of(folder / "var"), lives, rows)
        print(f"The first page over {rows:,} transactions, beside a tenant with as many:")
        print("| query | rows | median ms |\n|---|---|---|")
        for query in queries(clients[0], lives[0]):
            found_rows, median_ms = measure(clients[0], query)
            print(
                f"| {' '.join(query) or 'none'}: {next(iter(query.values()), '')[:20]} | {found_rows} ",
                end="",
            )
            print(f"| {median_ms:.1f} |", flush=True)
    finally:
        await installation.stop()


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.filters", description=__doc__)
    parser.add_argument("--rows", type=count, default=ROWS, help=f"transactions of each tenant [{ROWS}]")
    rows = parser.parse_args(arguments).rows
    try:
        with TemporaryDirectory(prefix="stanchion-filters-") as folder:
            asyncio.run(run(Path(folder), rows))
    except (ChildError, StanchionError) as failure:
        print(f"loadtests.filters: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
