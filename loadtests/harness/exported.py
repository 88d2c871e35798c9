"""The rows and the sums of an export: of its file, and of the database by statements of their own."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
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
    totals, rows = [0] * len(names), 0
    for values in _values(path, format_, names):
        rows += 1
        for number, value in enumerate(values):
            # Texts with two decimals: without the point they are minor units.
            totals[number] += int(value.replace(".", ""))
    return Sums(rows, dict(zip(names, totals, strict=True)))


def _values(path: Path, format_: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The summed columns of each row."""
    if format_ == "jsonl":
        with path.open("rb") as file:
            for line in file:
                row = msgspec.json.decode(line)
                yield tuple(row[name] for name in names)
        return
    with path.open(newline="") as text:
        lines = csv.reader(text)
        places = list(map(next(lines).index, names))
        for columns in lines:
            yield tuple([columns[place] for place in places])


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
