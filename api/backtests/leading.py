"""Leading back-tests: an API server cuts the cards into ranges, keeps tasks at work on them, and adds up
their figures.

A server leads a back-test while its lease lasts. When a server ends, its tasks end with it, and another
server goes on with the ranges that are left. The cancellation of a back-test ends its tasks at their next
step.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from actors.backtests.task import FUNCTION, payload_of
from actors.periodic import PeriodicTask
from actors.tasks import TaskFailedError, Tasks
from api.backtests.views import decode_tally
from api.database.pool import connected, fetch, fetch_row
from api.operations.pagination import FIRST_ID
from api.services import Services
from engine.backtests.tally import Tally
from engine.instant import DAY_MS, to_datetime
from engine.limits import (
    BACKTEST_ATTEMPTS_MAX,
    BACKTEST_KEEP_DAYS,
    BACKTEST_LEASE_SECONDS,
    BACKTEST_POLL_SECONDS,
    BACKTEST_RANGE_CARDS,
    BACKTEST_SECONDS_MAX,
    BACKTESTS_AT_ONCE,
)

KEEP_SECONDS: Final = BACKTEST_LEASE_SECONDS / 5
"""Interval between extensions of a lease."""
PAUSE_SECONDS: Final = 1.0
"""Pause after a task that failed."""
CARDS_LISTED: Final = 10_000
"""Cards that are listed by one statement."""
RESULTS_READ: Final = 200
"""Results of ranges that are read by one statement."""

_LEASE: Final = f"now() + interval '{BACKTEST_LEASE_SECONDS} seconds'"
_TAKE: Final = f"""
    UPDATE backtests SET state = 'running', attempt = attempt + 1, lease_until = {_LEASE},
        started_at = coalesce(started_at, now())
    WHERE id = (
        SELECT b.id FROM backtests b
        WHERE b.state = 'queued' OR (b.state = 'running' AND b.lease_until < now())
        ORDER BY (
            SELECT count(*) FROM backtests s WHERE s.tenant_id = b.tenant_id AND s.state = 'running'), b.id
        LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id::text, programme_id::text, scope_type, scope_id::text, attempt, cards IS NOT NULL AS planned
"""
_FENCE: Final = "id = $1::uuid AND attempt = $2 AND state = 'running'"
_EXTEND: Final = f"UPDATE backtests SET lease_until = {_LEASE} WHERE {_FENCE} RETURNING 1"
_KEEP: Final = f"""
    WITH kept AS (
        UPDATE backtests SET lease_until = {_LEASE} WHERE {_FENCE}
        RETURNING id, started_at < now() - interval '{BACKTEST_SECONDS_MAX} seconds' AS too_slow)
    SELECT k.too_slow,
        count(*) FILTER (WHERE r.state <> 'done') AS open,
        count(*) FILTER (WHERE r.attempt < {BACKTEST_ATTEMPTS_MAX}
            AND (r.state = 'queued' OR (r.state = 'running' AND r.lease_until < now()))) AS claimable,
        count(*) FILTER (WHERE r.attempt >= {BACKTEST_ATTEMPTS_MAX}
            AND r.state = 'running' AND r.lease_until < now()) AS exhausted
    FROM kept k LEFT JOIN backtest_ranges r ON r.backtest_id = k.id GROUP BY k.too_slow
"""
_FORGET_RANGES: Final = "DELETE FROM backtest_ranges WHERE backtest_id = $1::uuid"
_LIST_CARDS: Final = f"""
    SELECT id::text FROM cards
    WHERE programme_id = $1::uuid AND ($2::uuid IS NULL OR card_product_id = $2::uuid) AND id > $3::uuid
    ORDER BY id LIMIT {CARDS_LISTED}
"""
_ADD_RANGES: Final = """
    INSERT INTO backtest_ranges (backtest_id, number, first_card, last_card, cards)
    SELECT $1::uuid, * FROM unnest($2::integer[], $3::uuid[], $4::uuid[], $5::integer[])
"""
_PLANNED: Final = f"UPDATE backtests SET cards = $3, lease_until = {_LEASE} WHERE {_FENCE} RETURNING 1"
_RESULTS: Final = f"""
    SELECT number, result FROM backtest_ranges WHERE backtest_id = $1::uuid AND number > $2
    ORDER BY number LIMIT {RESULTS_READ}
"""
_END: Final = f"""
    UPDATE backtests SET state = $3, failure = $4, completed_at = $5, result = $6, lease_until = NULL
    WHERE {_FENCE}
"""
_EXPIRE: Final = """
    DELETE FROM backtests
    WHERE id IN (SELECT id FROM backtests WHERE created_at < $1 ORDER BY created_at LIMIT 10)
"""

_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger("api.backtests")


class _LeaseLostError(Exception):
    """Another server leads the back-test, or it was cancelled."""


class Taken(msgspec.Struct, frozen=True):
    """A back-test that this server leads."""

    id: str
    programme_id: str
    scope_type: str
    scope_id: str
    attempt: int
    planned: bool
    """Whether its ranges are there."""


class BacktestLeader:
    """Leads back-tests, at most ``BACKTESTS_AT_ONCE``. ``stop`` is safe to call twice."""

    def __init__(self, services: Services, tasks: Tasks) -> None:
        self._services = services
        self._tasks = tasks
        self._leading: set[asyncio.Task[None]] = set()
        self._taking = PeriodicTask(
            "backtest-leader", self._take, BACKTEST_POLL_SECONDS, tolerated=(Exception,)
        )

    def start(self) -> None:
        """Start in the running loop."""
        self._taking.start()

    async def stop(self) -> None:
        """End all tasks; other servers go on."""
        await self._taking.stop()
        leading = tuple(self._leading)
        for each in leading:
            each.cancel()
        await asyncio.gather(*leading, return_exceptions=True)

    async def _take(self) -> float | None:
        if len(self._leading) >= BACKTESTS_AT_ONCE:
            return None
        taken = await take(self._services)
        if taken is None:
            return None
        leading = asyncio.create_task(lead(self._services, self._tasks, taken))
        self._leading.add(leading)
        leading.add_done_callback(self._led)
        return 0.0

    def _led(self, leading: asyncio.Task[None]) -> None:
        self._leading.discard(leading)
        if not leading.cancelled() and (failure := leading.exception()) is not None:
            # Its lease ends, and a server takes it again.
            _log.warning("backtest_interrupted", error=type(failure).__name__)


async def take(services: Services) -> Taken | None:
    """Take the next back-test that waits or whose server has ended, and delete expired ones. The tenant with
    the fewest running back-tests comes first."""
    async with connected(services.pool) as connection:
        expired = to_datetime(services.clock.now_ms() - BACKTEST_KEEP_DAYS * DAY_MS)
        await connection.execute(_EXPIRE, expired)
        row = await connection.fetchrow(_TAKE)
    return None if row is None else Taken(**row)


async def lead(services: Services, tasks: Tasks, taken: Taken) -> None:
    """Lead a back-test to its end, or until its lease is lost."""
    with suppress(_LeaseLostError):
        if not taken.planned:
            await _plan(services, taken)
        failure = await _work(services, tasks, taken)
        await _end(services, taken, failure)


async def _plan(services: Services, taken: Taken) -> None:
    """Cut the cards of the scope into ranges."""
    async with connected(services.pool) as connection:
        await connection.execute(_FORGET_RANGES, taken.id)
    if taken.scope_type == "card":
        await _add_ranges(services, taken, 0, [taken.scope_id])
        cards = 1
    else:
        product_id = taken.scope_id if taken.scope_type == "card_product" else None
        cards, numbered, last = 0, 0, FIRST_ID
        while rows := await fetch(services.pool, _LIST_CARDS, taken.programme_id, product_id, last):
            ids = [row["id"] for row in rows]
            numbered = await _add_ranges(services, taken, numbered, ids)
            cards, last = cards + len(ids), ids[-1]
            await _extend(services, taken)
    if await fetch_row(services.pool, _PLANNED, taken.id, taken.attempt, cards) is None:
        raise _LeaseLostError


async def _add_ranges(services: Services, taken: Taken, numbered: int, ids: list[str]) -> int:
    """Add ranges of the cards ``ids``, numbered after ``numbered``; returns the last number."""
    parts = [ids[start : start + BACKTEST_RANGE_CARDS] for start in range(0, len(ids), BACKTEST_RANGE_CARDS)]
    numbers = list(range(numbered + 1, numbered + len(parts) + 1))
    columns = ([part[0] for part in parts], [part[-1] for part in parts], [len(part) for part in parts])
    async with connected(services.pool) as connection:
        await connection.execute(_ADD_RANGES, taken.id, numbers, *columns)
    return numbers[-1]


async def _extend(services: Services, taken: Taken) -> None:
    if await fetch_row(services.pool, _EXTEND, taken.id, taken.attempt) is None:
        raise _LeaseLostError


async def _work(services: Services, tasks: Tasks, taken: Taken) -> str | None:
    """Keep tasks at work until no range is left; returns the failure, if any."""
    slots, payload = await tasks.slots(), payload_of(taken.id)
    running: set[asyncio.Task[bytes]] = set()
    try:
        while True:
            row = await fetch_row(services.pool, _KEEP, taken.id, taken.attempt)
            if row is None:
                raise _LeaseLostError
            if not row["open"]:
                return None
            if row["too_slow"] or row["exhausted"]:
                return "too_slow" if row["too_slow"] else "interrupted"
            for _ in range(min(slots - len(running), row["claimable"])):
                running.add(asyncio.create_task(tasks.run(FUNCTION, payload)))
            running = await _some_ended(running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _some_ended(running: set[asyncio.Task[bytes]]) -> set[asyncio.Task[bytes]]:
    """Wait until a task ends or the lease is to be extended; returns the tasks that still run."""
    if not running:
        await asyncio.sleep(PAUSE_SECONDS)
        return running
    ended, rest = await asyncio.wait(running, timeout=KEEP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    failures = [task.exception() for task in ended]
    for failure in failures:
        if isinstance(failure, TaskFailedError):
            _log.warning("backtest_task_failed", error=str(failure))
        elif failure is not None:
            raise failure
    if any(failures):
        await asyncio.sleep(PAUSE_SECONDS)
    return rest


async def _end(services: Services, taken: Taken, failure: str | None) -> None:
    """Store the result."""
    result = None
    if failure is None:
        tally = await _total(services, taken)
        result = _encode(tally).decode()
        failure = "baseline_mismatch" if tally.mismatches else None
    state, at = "done" if failure is None else "failed", to_datetime(services.clock.now_ms())
    async with connected(services.pool) as connection:
        await connection.execute(_END, taken.id, taken.attempt, state, failure, at, result)
    _log.info("backtest_ended", backtest=taken.id, state=state, failure=failure)


async def _total(services: Services, taken: Taken) -> Tally:
    """The sum of the figures of all ranges."""
    total, last = Tally(), 0
    while rows := await fetch(services.pool, _RESULTS, taken.id, last):
        for row in rows:
            total.add(decode_tally(row["result"]))
        last = rows[-1]["number"]
        await _extend(services, taken)
    return total
