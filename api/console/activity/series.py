"""The figures of a time range as series for charts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from api.access.tokens import Caller
from api.console.activity import kept
from api.console.activity.counting import Figure, begin_of_rows, count
from api.console.activity.latency import percentile
from api.console.activity.ranges import TimeRange, Window, window_of
from api.database.pool import Connection, Pool, connected, transaction
from engine.limits import CONSOLE_COUNTED_ROWS_MAX, CONSOLE_KEPT_SLOT_SECONDS
from engine.money import format_minor

SHORTEST_KEPT: Final = CONSOLE_KEPT_SLOT_SECONDS


class Activity(msgspec.Struct, frozen=True):
    """Figures of the slots of a range. The lists are parallel to ``at``; ``None`` in a slot whose decisions
    are not counted yet."""

    slot_seconds: int
    at: list[int]
    """The begins of the slots (Unix seconds)."""
    approved: list[int | None]
    declined: list[int | None]
    stand_in_approved: list[int | None]
    stand_in_declined: list[int | None]
    p50_ms: list[float | None]
    """``None`` in a slot without a measured latency; as ``p99_ms``."""
    p99_ms: list[float | None]
    amounts: dict[str, list[float | None]]
    """Approved purchases in major units, by currency."""
    reasons: list[tuple[str, int]]
    """Decline reasons of all slots with their counts, most frequent first."""
    totals: dict[str, int]
    """Decisions of all slots: ``approved``, ``declined``, ``stand_in``."""
    total_amounts: dict[str, str]
    """Approved purchases of all slots as decimal amounts, by currency."""
    overall_p50_ms: float | None
    overall_p99_ms: float | None
    complete: bool
    """Whether all slots are counted."""
    counting: bool
    """Whether the next request counts further slots."""


async def activity(pool: Pool, caller: Caller, range_: TimeRange, now_ms: int, zone: str) -> Activity:
    """The figures of ``range_``."""
    window = window_of(range_, now_ms, zone)
    if range_.from_tables:
        async with connected(pool) as connection:
            found = await _counted(connection, caller, window)
        # With too many decisions for the short slots, an hour is shown in the kept ones.
        if not any(found.gaps) or range_.seconds <= SHORTEST_KEPT:
            return _series(window, found)
        window = window_of(range_._replace(slot_seconds=SHORTEST_KEPT), now_ms, zone)
    async with transaction(pool) as connection:
        return _series(window, await _kept(connection, caller, window, now_ms // 1000))


class _Found(msgspec.Struct, frozen=True):
    figures: list[Figure]
    gaps: list[range]
    """Seconds whose decisions are not counted."""
    counting: bool = False
    """Whether the next request counts some of them."""


async def _counted(connection: Connection, caller: Caller, window: Window) -> _Found:
    """Figures from the tables: the newest slots, up to a number of transactions."""
    begin = await begin_of_rows(connection, caller, *window, CONSOLE_COUNTED_ROWS_MAX)
    figures = await count(connection, caller, begin, window.end, window.slot_seconds)
    return _Found(figures, [range(window.begin, begin)])


async def _kept(connection: Connection, caller: Caller, window: Window, now: int) -> _Found:
    """Kept figures, and those of the slots since from the tables."""
    span = await kept.extended(connection, caller, window.begin, now)
    begin, end = max(window.begin, span.begin), max(window.begin, span.end)
    figures = await kept.read(connection, caller, begin, end, window)
    recent = await begin_of_rows(connection, caller, end, window.end, kept.SLOT, CONSOLE_COUNTED_ROWS_MAX)
    for figure in await count(connection, caller, recent, window.end, kept.SLOT):
        figures.append(figure._replace(slot=window.slot_of(figure.slot)))
    gaps = [range(window.begin, begin), range(end, recent)]
    return _Found(figures, gaps, counting=any(gaps))


def _series(window: Window, found: _Found) -> Activity:
    numbers: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    amounts: dict[str, Counter[int]] = defaultdict(Counter)
    latencies: dict[int, Counter[int]] = defaultdict(Counter)
    for figure in found.figures:
        if figure.measure == "latency":
            latencies[figure.slot][int(figure.label)] += figure.number
            continue
        numbers[figure.measure, figure.label][figure.slot] += figure.number
        if figure.measure == "approved":
            amounts[figure.label][figure.slot] += figure.amount_minor
    known = [not any(_overlap(slot, window, gap) for gap in found.gaps) for slot in window.slots]
    by_measure = {name: _sum(numbers, name) for name in ("approved", "declined", "stand_in")}
    reasons = Counter({label: sum(n.values()) for (name, label), n in numbers.items() if name == "declined"})
    overall = _merged(latencies.values())
    slots = [*window.slots]

    def shown(values: Counter[int]) -> list[int | None]:
        return [values[slot] if counted else None for slot, counted in zip(slots, known, strict=True)]

    return Activity(
        slot_seconds=window.slot_seconds,
        at=slots,
        approved=shown(by_measure["approved"]),
        declined=shown(by_measure["declined"]),
        stand_in_approved=shown(numbers["stand_in", "approved"]),
        stand_in_declined=shown(numbers["stand_in", "declined"]),
        p50_ms=[percentile(latencies[slot], 0.50) for slot in slots],
        p99_ms=[percentile(latencies[slot], 0.99) for slot in slots],
        amounts={
            currency: [None if minor is None else minor / 100 for minor in shown(values)]
            for currency, values in sorted(amounts.items())
        },
        reasons=reasons.most_common(),
        totals={name: sum(values.values()) for name, values in by_measure.items()},
        total_amounts={
            currency: format_minor(sum(values.values())) for currency, values in sorted(amounts.items())
        },
        overall_p50_ms=percentile(overall, 0.50),
        overall_p99_ms=percentile(overall, 0.99),
        complete=all(known),
        counting=found.counting,
    )


def _sum(numbers: dict[tuple[str, str], Counter[int]], measure: str) -> Counter[int]:
    return _merged(values for (name, _), values in numbers.items() if name == measure)


def _merged(counters: Iterable[Counter[int]]) -> Counter[int]:
    merged: Counter[int] = Counter()
    for each in counters:
        merged.update(each)
    return merged


def _overlap(slot: int, window: Window, gap: range) -> bool:
    return max(slot, gap.start) < min(slot + window.slot_seconds, gap.stop)
