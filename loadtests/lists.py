"""One tenant's slow lists beside another tenant's reads: `python -m loadtests.lists`.

A new installation gets many transactions of one tenant. That tenant then requests filtered lists without
matches, many at a time. The reads of another tenant are timed before and during these requests. It is not a
test.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg
import msgspec

from loadtests.figures import percentile
from loadtests.generators.http import Api, HttpError
from loadtests.harness.children import ChildError
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.options import count

ROWS: Final = 1_500_000
LISTS_AT_ONCE: Final = 12
READS: Final = 500
READS_PER_SECOND: Final = 50.0
FILL_SECONDS_MAX: Final = 900.0

_FILL: Final = """
    INSERT INTO transaction_rows (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind,
        status, currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor,
        created_at, updated_at, day, remainder_minor)
    SELECT (substr(hex, 1, 8) || '-' || substr(hex, 9) || '-7000-8000-' || right(t.id::text, 12))::uuid, t.id,
        false, t.id, t.id, t.id, n, 'purchase', 'declined', 'EUR', 1, 0, 0, 0, 0, at, at, '2026-01-01', 0
    FROM tenants t, generate_series(1, $2::integer) n,
        LATERAL (SELECT to_timestamp(1767225600 + n / 1000.0)) AS moment (at),
        LATERAL (SELECT lpad(to_hex(1767225600000 + n), 12, '0')) AS id (hex)
    WHERE t.id = (SELECT tenant_id FROM clients WHERE client_id = $1)
"""
_LISTS: Final = ("kind=force_post", "status=reversed", "from=2020-01-01T00:00:00Z&kind=refund")


class Reads(msgspec.Struct, frozen=True):
    """Latencies of one tenant's reads in milliseconds, and how many were not answered with 200."""

    p50_ms: float
    p99_ms: float
    failed: int


async def measure(run: dict[str, Any]) -> tuple[Reads, Reads, Counter[str]]:
    """Reads alone, reads beside the lists, and the number of lists answered."""
    busy, other = two_tenants(run)
    lists, reads = Api(run["base_url"], LISTS_AT_ONCE), Api(run["base_url"], 8)
    answers = Counter[str]()
    try:
        await lists.open(busy)
        await reads.open(other)
        quiet = await _read(reads)
        listing = [asyncio.create_task(_list(lists, number, answers)) for number in range(LISTS_AT_ONCE)]
        beside = await _read(reads)
        for task in listing:
            task.cancel()
        await asyncio.gather(*listing, return_exceptions=True)
    finally:
        await lists.close()
        await reads.close()
    return quiet, beside, answers


def two_tenants(run: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Clients of two tenants in test mode."""
    clients = [client for client in run["tenants"] if client["mode"] == "test"]
    return clients[0], next(client for client in clients if client["name"] != clients[0]["name"])


async def _read(api: Api) -> Reads:
    """Reads at a fixed rate, timed from the instant at which each was due."""
    began, latencies, failed = time.monotonic(), [], 0

    async def read(due: float) -> None:
        nonlocal failed
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        try:
            await api.call("GET", "/v1/cards?limit=1")
        except HttpError:
            failed += 1
        latencies.append((time.monotonic() - due) * 1000)

    await asyncio.gather(*(read(began + number / READS_PER_SECOND) for number in range(READS)))
    return Reads(percentile(latencies, 0.5), percentile(latencies, 0.99), failed)


async def _list(api: Api, number: int, answers: Counter[str]) -> None:
    while True:
        try:
            await api.call("GET", f"/v1/transactions?{_LISTS[number % len(_LISTS)]}")
            answers["200"] += 1
        except HttpError:
            answers["refused"] += 1


async def fill(dsn: str, client_id: str, rows: int) -> None:
    """Insert ``rows`` transactions for the tenant of a client."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_FILL, client_id, rows, timeout=FILL_SECONDS_MAX)
        await connection.execute("VACUUM (ANALYZE) transaction_rows", timeout=FILL_SECONDS_MAX)
    finally:
        await connection.close()


async def run(folder: Path, rows: int) -> tuple[Reads, Reads, Counter[str]]:
    """Start an installation in ``folder``, fill it and measure."""
    async with BenchServers(folder, ServerPlan(cards=1, rival_processes=0)) as servers:
        embedded = msgspec.json.decode((folder / "var" / "servers.json").read_bytes())
        await fill(embedded["database_url"], two_tenants(servers.run)[0]["client_id"], rows)
        return await measure(servers.run)


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.lists", description=__doc__)
    parser.add_argument(
        "--rows", type=count, default=ROWS, help=f"transactions of the tenant (default {ROWS})"
    )
    rows = parser.parse_args(arguments).rows
    try:
        with stoppable("lists"), TemporaryDirectory(prefix="stanchion-lists-") as folder:
            quiet, beside, answers = run_until_stopped(run(Path(folder), rows))
    except (ChildError, HttpError) as failure:
        print(f"loadtests.lists: {failure}", file=sys.stderr)
        return 1
    print(f"{LISTS_AT_ONCE} filtered lists at a time over {rows:,} transactions; answers: {dict(answers)}")
    print("| reads of another tenant | p50 ms | p99 ms | failed |\n|---|---|---|---|")
    for title, found in (("alone", quiet), ("beside the lists", beside)):
        print(f"| {title} | {found.p50_ms:.1f} | {found.p99_ms:.1f} | {found.failed} of {READS} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
