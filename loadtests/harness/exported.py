"""The rows and the sums of an export: of its file, and of the database by statements of their own."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

BEGIN: Final = "2026-01-01T00:00:00Z"
END: Final = "2026-12-31T00:00:00Z"
"""The window of the exports, half-open."""
STATEMENT_SECONDS_MAX: Final = 1_800.0

_TRANSACTION_SUMS: Final = ("requested_amount", "approved_amount", "cleared_amount", "reversed_amount")
_SUMS: Final = {
    "transactions": _TRANSACTION_SUMS,
    "ledger_entries": ("amount",),
    "decisions": ("requested_amount",),
}
"""The summed columns of each kind."""
_WINDOW: Final = f"""r.created_at >= '{BEGIN}' AND r.created_at < '{END}' AND r.tenant_id = (
    SELECT tenant_id FROM exports ORDER BY id DESC LIMIT 1)"""
_MINOR: Final = {name: name.replace("_amount", "_minor") for name in _TRANSACTION_SUMS}
_OF_DATABASE: Final = {
    "transactions": f"""SELECT count(*), {", ".join(f"sum({name})" for name in _MINOR.values())}
        FROM transactions r WHERE {_WINDOW}""",
    "ledger_entries": f"""SELECT count(*), sum(r.amount_minor)
        FROM (SELECT e.amount_minor, e.occurred_at AS created_at, a.tenant_id FROM ledger_entries e
            JOIN accounts a ON a.id = e.account_id) r WHERE {_WINDOW}""",
    "decisions": f"""SELECT count(*), sum(r.requested_minor) FROM transactions r
        JOIN journal j ON j.actor_id = r.card_id AND j.seq = r.seq AND j.kind = 'authorize'
        WHERE {_WINDOW}""",
}


class Sums(msgspec.Struct, frozen=True):
    """The number of rows, and the sums of their amounts in minor units, by column."""

    rows: int
    minor: dict[str, int]


def sums_of_file(path: Path, kind: str, format_: str) -> Sums:
    """Read row by row."""
    names = _SUMS[kind]
    totals, rows = dict.fromkeys(names, 0), 0
    for row in _rows(path, format_):
        rows += 1
        for name in names:
            # Texts with two decimals: without the point they are minor units.
            totals[name] += int(row[name].replace(".", "", 1))
    return Sums(rows, totals)


def _rows(path: Path, format_: str) -> Iterator[dict[str, Any]]:
    with path.open("rb" if format_ == "jsonl" else "r", newline=None if format_ == "jsonl" else "") as file:
        if format_ == "jsonl":
            yield from map(msgspec.json.decode, file)
            return
        lines = csv.reader(file)
        head = next(lines)
        for line in lines:
            yield dict(zip(head, line, strict=True))


async def sums_of_database(dsn: str, kind: str) -> Sums:
    """The same by a plain statement, for the tenant of the newest export."""
    rows, *sums = await _row(dsn, _OF_DATABASE[kind])
    return Sums(rows, {name: int(each or Decimal()) for name, each in zip(_SUMS[kind], sums, strict=True)})


async def temporary_bytes(dsn: str) -> int:
    """Bytes that PostgreSQL has written to temporary files so far."""
    size: int = (await _row(dsn, "SELECT sum(temp_bytes)::bigint FROM pg_stat_database"))[0]
    return size


async def _row(dsn: str, statement: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchrow(statement, timeout=STATEMENT_SECONDS_MAX)
    finally:
        await connection.close()
