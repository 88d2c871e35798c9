"""Counts of decisions in slots, from the tables of transactions, simulations and stand-ins.

The instant of a decision is the one in its id, which the edge assigns when the message arrives. So an index
range of ids is a range of time, and a slot is complete soon after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from api.access.tokens import Caller
from api.console.activity.latency import BOUNDS_MS
from api.database.pool import Connection
from engine.ids import first_id_at
from engine.instant import to_datetime

Measure = Literal["approved", "declined", "stand_in", "latency"]


class Figure(NamedTuple):
    """One count. ``label`` is the currency of ``approved``, the reason of ``declined``, the decision of
    ``stand_in``, the bucket of ``latency``."""

    slot: int
    """The begin of the slot (Unix seconds)."""
    measure: Measure
    label: str
    number: int
    amount_minor: int
    """Approved purchases in the currency of the label; otherwise 0."""


def _ms_of(id_column: str) -> str:
    """The instant of a UUIDv7 in milliseconds since the epoch."""
    return f"('x' || encode(substring(uuid_send({id_column}) FROM 1 FOR 6), 'hex'))::bit(48)::bigint"


def _slot_of(seconds: str) -> str:
    """The begin of the slot of ``seconds``, where $5 is its length and $6 the begin of any slot."""
    return f"({seconds} - mod({seconds} - $6::bigint, $5::bigint))"


_BOUNDS: Final = f"ARRAY{[*map(float, BOUNDS_MS)]}::double precision[]"
_DECIDED: Final = f"""
    decided AS MATERIALIZED (
        SELECT {_slot_of(_ms_of("t.id") + " / 1000")} AS slot, t.decline_reason, t.currency,
               width_bucket(extract(epoch FROM t.created_at) * 1000 - {_ms_of("t.id")}, {_BOUNDS}) AS bucket,
               count(*) AS number, sum(t.approved_minor) FILTER (WHERE t.kind = 'purchase') AS amount_minor
        FROM transactions t
        WHERE t.tenant_id = $1 AND t.live = $2 AND t.id >= $3::uuid AND t.id < $4::uuid
          AND t.kind <> 'force_post'
        GROUP BY 1, 2, 3, 4)
"""
# Test mode: from sending a message to its answer, as the simulated network has measured it.
_ON_THE_WIRE: Final = f"""
    SELECT {_slot_of(_ms_of("s.id") + " / 1000")}, 'latency',
           width_bucket(extract(epoch FROM s.decided_at - s.sent_at) * 1000, {_BOUNDS})::text, count(*), 0
    FROM simulations s
    WHERE s.tenant_id = $1 AND s.id >= $3::uuid AND s.id < $4::uuid
      AND s.decided_at IS NOT NULL AND s.sent_at IS NOT NULL
    GROUP BY 1, 2, 3
"""
# Live mode: from the arrival of a message at the edge to the decision.
_TO_THE_DECISION: Final = """
    SELECT slot, 'latency', bucket::text, sum(number)::bigint, 0 FROM decided GROUP BY 1, 2, 3
"""
_COUNT: Final = f"""
    WITH {_DECIDED}
    SELECT slot, 'approved' AS measure, currency AS label, sum(number)::bigint AS number,
           coalesce(sum(amount_minor), 0)::bigint AS amount_minor
    FROM decided WHERE decline_reason IS NULL GROUP BY 1, 2, 3
    UNION ALL
    SELECT slot, 'declined', decline_reason, sum(number)::bigint, 0
    FROM decided WHERE decline_reason IS NOT NULL GROUP BY 1, 2, 3
    UNION ALL
    SELECT {_slot_of("floor(extract(epoch FROM s.decided_at))::bigint")}, 'stand_in', s.decision, count(*), 0
    FROM programmes p JOIN stand_ins s ON s.programme_id = p.id
    WHERE p.tenant_id = $1 AND p.live = $2 AND s.decided_at >= $7 AND s.decided_at < $8
    GROUP BY 1, 2, 3
    UNION ALL {{latency}}
"""
_COUNTS: Final = {
    False: _COUNT.format(latency=_ON_THE_WIRE),
    True: _COUNT.format(latency=_TO_THE_DECISION),
}
"""By mode: whether it is live."""
_BOUNDARY: Final = f"""
    SELECT {_ms_of("t.id")} / 1000 FROM transactions t
    WHERE t.tenant_id = $1 AND t.live = $2 AND t.id >= $3::uuid AND t.id < $4::uuid
    ORDER BY t.id {{order}} OFFSET $5 LIMIT 1
"""
_OLDEST_FIRST: Final = _BOUNDARY.format(order="")
_NEWEST_FIRST: Final = _BOUNDARY.format(order="DESC")


async def count(
    connection: Connection, caller: Caller, begin: int, end: int, slot_seconds: int
) -> list[Figure]:
    """All figures of the slots from ``begin`` to ``end`` (Unix seconds); slots begin at ``begin``."""
    rows = await connection.fetch(
        _COUNTS[caller.live],
        *_range(caller, begin, end),
        slot_seconds,
        begin,
        to_datetime(begin * 1000),
        to_datetime(end * 1000),
    )
    return [Figure(*_values(row)) for row in rows]


async def end_of_rows(
    connection: Connection, caller: Caller, begin: int, end: int, slot_seconds: int, rows: int
) -> int:
    """The end of the last slot from ``begin`` on such that all together hold at most ``rows`` transactions;
    one slot at least."""
    at: int | None = await connection.fetchval(_OLDEST_FIRST, *_range(caller, begin, end), rows)
    if at is None:
        return end
    return max(begin + slot_seconds, at - (at - begin) % slot_seconds)


async def begin_of_rows(
    connection: Connection, caller: Caller, begin: int, end: int, slot_seconds: int, rows: int
) -> int:
    """The begin of the first slot up to ``end`` such that all together hold at most ``rows`` transactions;
    one slot at least."""
    at: int | None = await connection.fetchval(_NEWEST_FIRST, *_range(caller, begin, end), rows)
    if at is None:
        return begin
    return min(end - slot_seconds, at - (at - begin) % slot_seconds + slot_seconds)


def _range(caller: Caller, begin: int, end: int) -> tuple[str, bool, str, str]:
    return caller.tenant_id, caller.live, first_id_at(begin * 1000), first_id_at(end * 1000)


def _values(row: Any) -> Sequence[Any]:
    return tuple(row.values())
