"""Retries evaluations of KYC checks that had no result, and records the expiry of checks.

Every API server sweeps; each row is taken by one of them. A check counts as expired from its expiry on, even
before its row records it, because every reader compares the time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import structlog

from actors.periodic import PeriodicTask
from api.database.pool import connected, transaction
from api.http.problems import Refusal
from api.kyc.advance import Step, evaluated, write
from api.kyc.cases import SELECT, Check, check_of, save
from api.services import Services
from engine.instant import to_datetime
from engine.limits import KYC_LEASE_SECONDS, KYC_SWEEP_MAX, KYC_SWEEP_SECONDS

_OVERDUE: Final = """
    SELECT id::text FROM kyc_checks WHERE state IN ('pending', 'passed') AND expires_at <= $1
    ORDER BY expires_at LIMIT $2
"""
_LOCK: Final = SELECT + " WHERE r.id = $1::uuid FOR NO KEY UPDATE SKIP LOCKED"
_CLAIM: Final = f"""
    WITH due AS (
        SELECT id FROM kyc_checks WHERE evaluate_at <= $1
        ORDER BY evaluate_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE kyc_checks SET evaluate_at = $3 FROM due WHERE kyc_checks.id = due.id
    )
    {SELECT} JOIN due USING (id)
"""
_CLEAR: Final = "DELETE FROM kyc_capture_sessions WHERE expires_at < $1"

_log = structlog.get_logger("api.kyc")


def kyc_sweeper(services: Services) -> PeriodicTask:
    """Retries evaluations and expires checks. A failed sweep is logged, and the next one tries again."""
    return PeriodicTask(
        "kyc-sweeper",
        partial(_sweep, services),
        KYC_SWEEP_SECONDS,
        delay=KYC_SWEEP_SECONDS,
        tolerated=(Exception,),
    )


async def _sweep(services: Services) -> None:
    await sweep(services)


async def sweep(services: Services) -> int:
    """One sweep; returns the number of checks whose state was written."""
    moved = await _expire(services)
    for check in await _claim(services):
        try:
            moved += await _evaluate(services, check)
        except Exception as fault:  # noqa: BLE001 -- one case that cannot be read must not delay the others
            _log.error("a check cannot be evaluated", check=check.id, fault=type(fault).__name__)
    async with connected(services.pool) as connection:
        await connection.execute(_CLEAR, to_datetime(services.clock.now_ms()))
    return moved


async def _expire(services: Services) -> int:
    now_ms = services.clock.now_ms()
    async with connected(services.pool) as connection:
        overdue = await connection.fetch(_OVERDUE, to_datetime(now_ms), KYC_SWEEP_MAX)
    for row in overdue:
        async with transaction(services.pool) as connection:
            found: Any = await connection.fetchrow(_LOCK, row["id"])
            check = None if found is None else check_of(found, now_ms)
            if check is not None and check.case.version != found["version"]:
                await save(connection, check, found["version"], now_ms)
    return len(overdue)


async def _claim(services: Services) -> list[Check]:
    now_ms = services.clock.now_ms()
    until = to_datetime(now_ms + KYC_LEASE_SECONDS * 1000)
    async with connected(services.pool) as connection:
        rows = await connection.fetch(_CLAIM, to_datetime(now_ms), KYC_SWEEP_MAX, until)
    return [check_of(row, now_ms) for row in rows]


async def _evaluate(services: Services, check: Check) -> int:
    after = await evaluated(services, check, check.case, {})
    try:
        async with transaction(services.pool) as connection:
            await write(connection, services, Step(check, after))
    except Refusal:
        return 0  # a reviewer has decided meanwhile
    return 1
