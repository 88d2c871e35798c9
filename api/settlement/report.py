"""The settlement report of one programme and day, from the ledger and the transactions.

What was presented and refunded comes from the entries of the programme's settlement account, so the report's
net amount is the change of that account. The audit compares both. Fees are entries of its funding source.
Amounts in minor units.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any, Final

import msgspec

from engine.ids import Derived, derive, first_id_at
from engine.instant import to_ms, zone
from engine.limits import PAGE_CLOCK_SLACK_MS

POSTED: Final = """
    SELECT e.account_id, e.occurred_at, e.currency, c.network,
        CASE WHEN t.kind = 'refund' THEN 'refunded' ELSE 'presented' END AS part,
        CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END AS amount_minor
    FROM ledger_entries e JOIN accounts a ON a.id = e.account_id
    LEFT JOIN transactions t ON t.tenant_id = a.tenant_id AND t.live = a.live AND t.id = e.authorization_id
    LEFT JOIN cards c ON c.id = t.card_id
"""
"""One row for each entry ``e`` with its part of the report; a refund is negative."""

_POSTED_OF_DAY: Final = f"""
    SELECT network, currency, part, count(*) AS count, sum(amount_minor)::bigint AS amount_minor
    FROM ({POSTED}
        WHERE e.account_id = $1::uuid AND e.id >= $2::uuid AND e.id < $3::uuid
            AND e.occurred_at >= $4 AND e.occurred_at < $5) posted
    GROUP BY network, currency, part
"""
# The first join finds the entry of a fee, the second one that of its reversal.
_FEES_OF_DAY: Final = """
    SELECT c.network, e.currency, 'fees' AS part, count(*) AS count,
        sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint
            AS amount_minor
    FROM ledger_entries e LEFT JOIN transfers t ON t.id = e.transfer_id
    LEFT JOIN transfers r ON r.reversal_id = e.transfer_id
    JOIN cards c ON c.id = coalesce(t.card_id, r.card_id)
    WHERE e.account_id = $1::uuid AND e.id >= $2::uuid AND e.id < $3::uuid
        AND e.occurred_at >= $4 AND e.occurred_at < $5 AND coalesce(t.kind, r.kind) = 'fee'
    GROUP BY c.network, e.currency
"""
# The codes come first, so that each range of the index holds the programme's rows of the window alone.
_AUTHORIZED: Final = """
    WITH RECURSIVE codes AS (
        SELECT (SELECT min(mcc) FROM transactions WHERE programme_id = $1::uuid) AS code
        UNION ALL
        SELECT (SELECT min(t.mcc) FROM transactions t WHERE t.programme_id = $1::uuid AND t.mcc > c.code)
        FROM codes c WHERE c.code IS NOT NULL)
    SELECT c.network, r.currency, 'authorized' AS part, count(*) AS count,
        sum(r.approved_minor)::bigint AS amount_minor
    FROM codes CROSS JOIN LATERAL (
        SELECT * FROM transactions t
        WHERE t.programme_id = $1::uuid AND t.mcc = codes.code AND t.id >= $2::uuid AND t.id < $3::uuid
            AND t.created_at >= $4 AND t.created_at < $5 AND t.kind = 'purchase' AND t.approved_minor > 0) r
    JOIN cards c ON c.id = r.card_id
    GROUP BY c.network, r.currency
"""

PARTS: Final = ("authorized", "presented", "refunded", "fees")


class Part(msgspec.Struct):
    """A number of transactions or entries, and the sum of their amounts."""

    count: int = 0
    amount_minor: int = 0


class Line(msgspec.Struct):
    """The amounts of one network and currency; ``network`` is ``None`` for entries of no transaction."""

    network: str | None
    currency: str
    authorized: Part
    presented: Part
    refunded: Part
    fees: Part

    @property
    def net_minor(self) -> int:
        """The amount that the programme owes the network for the day."""
        return self.presented.amount_minor - self.refunded.amount_minor


def window_of(date: str, timezone: str) -> tuple[datetime, datetime]:
    """The first instant of the day ``YYYY-MM-DD`` in ``timezone``, and that of the next day."""
    day = datetime.fromisoformat(date).date()
    begin, end = (datetime.combine(each, time(), zone(timezone)) for each in (day, day + timedelta(days=1)))
    return begin, end


async def lines_of(connection: Any, programme_id: str, window: tuple[datetime, datetime]) -> list[Line]:
    """The lines of the report, by network and currency. All statements see one snapshot if ``connection`` is
    in a repeatable-read transaction."""
    ids = (
        first_id_at(max(0, to_ms(window[0]) - PAGE_CLOCK_SLACK_MS)),
        first_id_at(to_ms(window[1]) + PAGE_CLOCK_SLACK_MS),
    )
    settlement = derive(programme_id, Derived.SETTLEMENT)
    rows = await connection.fetch(_POSTED_OF_DAY, settlement, *ids, *window)
    rows += await connection.fetch(_FEES_OF_DAY, derive(programme_id, Derived.FUNDING_SOURCE), *ids, *window)
    rows += await connection.fetch(_AUTHORIZED, programme_id, *ids, *window)
    lines: dict[tuple[str, str], Line] = {}
    for row in rows:
        key = (row["network"] or "", row["currency"])
        line = lines.setdefault(key, Line(row["network"], row["currency"], Part(), Part(), Part(), Part()))
        sign = -1 if row["part"] == "refunded" else 1
        setattr(line, row["part"], Part(row["count"], sign * row["amount_minor"]))
    return [lines[key] for key in sorted(lines)]
