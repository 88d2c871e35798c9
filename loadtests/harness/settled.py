"""Settlement reports of many days against the ledger.

The reports and the balances come from the API, the sums of the entries from a statement of this module.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import asyncpg
import msgspec

from loadtests.figures import percentile
from loadtests.generators.history import BEGIN_MS
from stanchion import Client

STATEMENT_SECONDS_MAX: Final = 1_800.0
_LAST: Final = "SELECT max(occurred_at) FROM ledger_entries WHERE authorization_id IS NOT NULL"
_ENTRIES: Final = """
    SELECT a.programme_id::text, count(*) AS entries,
        sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
    FROM ledger_entries e JOIN accounts a ON a.id = e.account_id WHERE a.kind = 'settlement' GROUP BY 1
"""


class Programme(msgspec.Struct):
    """The three numbers of one programme, in minor units, which must be equal."""

    id: str
    reported_minor: int
    balance_minor: int
    entries_minor: int
    entries: int
    reported_entries: int


class Settled(msgspec.Struct):
    """All reports of a tenant."""

    programmes: list[Programme]
    milliseconds: list[float]
    """The time of each report."""

    @property
    def reports(self) -> int:
        return len(self.milliseconds)

    @property
    def faults(self) -> list[str]:
        """The programmes whose numbers differ."""
        return [
            f"settlement of {each.id}: {each}"
            for each in self.programmes
            if not each.reported_minor == each.balance_minor == each.entries_minor
            or each.reported_entries != each.entries
        ]

    def lines(self) -> list[str]:
        """The facts for the report."""
        entries = sum(each.entries for each in self.programmes)
        equal = "equal" if not self.faults else "DIFFER FROM"
        p50, most = percentile(self.milliseconds, 0.5), max(self.milliseconds)
        return [
            f"- the net amounts of {self.reports:,} settlement reports (one for each programme and day, of"
            f" {entries:,} entries) {equal} the balances of the settlement accounts and the sums of their"
            " entries",
            f"- one report: p50 {p50:.0f} ms, at most {most:.0f} ms",
        ]


async def settled(client: Client, dsn: str) -> Settled:
    """The reports of all programmes and days of the history."""
    last, entries = await _entries(dsn)
    found = Settled([], [])
    balances = {each["programme_id"]: each for each in client.accounts.list() if each["kind"] == "settlement"}
    for programme in client.programs.list():
        id_ = programme["id"]
        net, counted = _reported(client, id_, last, found.milliseconds)
        sums = entries.get(id_, {"minor": 0, "entries": 0})
        balance = _minor(balances[id_]["posted"])
        found.programmes.append(Programme(id_, net, balance, sums["minor"], sums["entries"], counted))
    return found


def _reported(client: Client, programme_id: str, last: date, milliseconds: list[float]) -> tuple[int, int]:
    """The sum of the net amounts, and the number of entries."""
    net_minor = counted = 0
    for day in _days(last):
        began = time.perf_counter()
        report = client.settlement_reports.get(programme_id, day)
        milliseconds.append((time.perf_counter() - began) * 1000)
        for line in report["lines"]:
            net_minor += _minor(line["net"])
            counted += sum(line[part]["count"] for part in ("presented", "refunded", "fees"))
    return net_minor, counted


def _days(last: date) -> list[str]:
    """From the first day of the history to ``last``."""
    first = datetime.fromtimestamp(BEGIN_MS / 1000, UTC).date()
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _minor(amount: str) -> int:
    return int(amount.replace(".", "", 1))


async def _entries(dsn: str) -> tuple[date, dict[str, Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        last = await connection.fetchval(_LAST, timeout=STATEMENT_SECONDS_MAX)
        rows = await connection.fetch(_ENTRIES, timeout=STATEMENT_SECONDS_MAX)
    finally:
        await connection.close()
    return last.date(), {row["programme_id"]: dict(row) for row in rows}
