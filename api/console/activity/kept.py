"""Kept figures: slots of five minutes, counted once.

The kept slots of a tenant and mode have no gaps. A page that shows a longer range extends them: towards the
present first, then into the past, a bounded number of transactions for each request. Until the range is
complete, the page asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import asyncpg

from api.access.tokens import Caller
from api.console.activity.counting import Figure, begin_of_rows, count, end_of_rows
from api.console.activity.ranges import DAY_SECONDS, LONGEST_SECONDS, Window
from api.database.pool import Connection
from engine.limits import CONSOLE_COUNTED_ROWS_MAX, CONSOLE_KEPT_SLOT_SECONDS, CONSOLE_SLOT_DELAY_SECONDS

SLOT: Final = CONSOLE_KEPT_SLOT_SECONDS

_SPAN: Final = """
    SELECT counted_from, counted_to FROM console_activity_spans WHERE tenant_id = $1 AND live = $2
"""
_FREE_SPAN: Final = f"{_SPAN} FOR UPDATE SKIP LOCKED"
_FIRST_SPAN: Final = """
    INSERT INTO console_activity_spans (tenant_id, live, counted_from, counted_to) VALUES ($1, $2, $3, $3)
    ON CONFLICT DO NOTHING
"""
_EXTEND: Final = """
    UPDATE console_activity_spans SET counted_from = $3, counted_to = $4 WHERE tenant_id = $1 AND live = $2
"""
_KEEP: Final = """
    INSERT INTO console_activity (tenant_id, live, slot_at, measure, label, number, amount_minor)
    SELECT $1, $2, to_timestamp(slot), measure, label, number, amount_minor
    FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
        AS counted (slot, measure, label, number, amount_minor)
    ON CONFLICT DO NOTHING
"""
_FORGET: Final = "DELETE FROM console_activity WHERE tenant_id = $1 AND live = $2 AND slot_at < $3"
_READ: Final = """
    SELECT seconds - mod(seconds - $5::bigint, $6::bigint) AS slot, measure, label,
           sum(number)::bigint AS number, sum(amount_minor)::bigint AS amount_minor
    FROM (SELECT extract(epoch FROM slot_at)::bigint AS seconds, measure, label, number, amount_minor
          FROM console_activity
          WHERE tenant_id = $1 AND live = $2 AND slot_at >= $3 AND slot_at < $4) AS kept
    GROUP BY 1, 2, 3
"""


class Span(NamedTuple):
    """The kept slots, as Unix seconds: from ``begin``, inclusive, to ``end``, exclusive."""

    begin: int
    end: int


async def extended(connection: Connection, caller: Caller, begin: int, now: int) -> Span:
    """The kept slots after one step towards those from ``begin`` to ``now``. Needs a transaction."""
    last = (now - CONSOLE_SLOT_DELAY_SECONDS) // SLOT * SLOT
    first = begin // SLOT * SLOT
    of_caller = (caller.tenant_id, caller.live)
    await connection.execute(_FIRST_SPAN, *of_caller, _at(last))
    row = await connection.fetchrow(_FREE_SPAN, *of_caller)
    if row is None:
        # Another request counts: show its figures once they are committed.
        return _span(await connection.fetchrow(_SPAN, *of_caller))
    span = _span(row)
    if span.end < last:
        return await _count_forward(connection, caller, span, last)
    if span.begin > first:
        return await _count_backward(connection, caller, span, first)
    return span


async def read(connection: Connection, caller: Caller, begin: int, end: int, window: Window) -> list[Figure]:
    """The kept figures from ``begin`` to ``end``, added up in the slots of ``window``."""
    rows = await connection.fetch(
        _READ,
        *(caller.tenant_id, caller.live, _at(begin), _at(end)),
        *(window.begin, window.slot_seconds),
    )
    return [Figure(*row.values()) for row in rows]


async def _count_forward(connection: Connection, caller: Caller, span: Span, last: int) -> Span:
    if last - span.end > LONGEST_SECONDS:
        # The kept slots are older than every chart: begin again, from the present.
        span = Span(last, last)
        await _store(connection, caller, span, (), forget_before=last)
        return span
    end = await end_of_rows(connection, caller, span.end, last, SLOT, CONSOLE_COUNTED_ROWS_MAX)
    figures = await count(connection, caller, span.end, end, SLOT)
    oldest = last - LONGEST_SECONDS - DAY_SECONDS
    span = Span(max(span.begin, oldest), end)
    await _store(connection, caller, span, figures, forget_before=oldest)
    return span


async def _count_backward(connection: Connection, caller: Caller, span: Span, first: int) -> Span:
    begin = await begin_of_rows(connection, caller, first, span.begin, SLOT, CONSOLE_COUNTED_ROWS_MAX)
    figures = await count(connection, caller, begin, span.begin, SLOT)
    span = Span(begin, span.end)
    await _store(connection, caller, span, figures)
    return span


async def _store(
    connection: Connection,
    caller: Caller,
    span: Span,
    figures: Sequence[Figure],
    *,
    forget_before: int | None = None,
) -> None:
    of_caller = (caller.tenant_id, caller.live)
    if forget_before is not None:
        await connection.execute(_FORGET, *of_caller, _at(forget_before))
    columns = zip(*figures, strict=True) if figures else ((), (), (), (), ())
    await connection.execute(_KEEP, *of_caller, *map(list, columns))
    await connection.execute(_EXTEND, *of_caller, _at(span.begin), _at(span.end))


def _span(row: asyncpg.Record | None) -> Span:
    assert row is not None, "inserted before"
    return Span(*(int(row[name].timestamp()) for name in ("counted_from", "counted_to")))


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
