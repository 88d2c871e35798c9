"""Faults of PostgreSQL and Redis, and of the network to them."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Final

from redis.asyncio import Redis

from ops.chaos.environment.processes import send_signal, signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import after_outage, expect_answers_in_time
from ops.chaos.faults.fault import NORMAL_SECONDS_MAX, Fault, Outcome
from ops.chaos.rig import Rig

# --- PostgreSQL ---------------------------------------------------------------------------------------------


async def kill_postgres(rig: Rig) -> Outcome:
    """kill -9 of every process of PostgreSQL."""
    signal_processes(signal.SIGKILL, rig.server_pids(rig.postgres))
    began = time.monotonic()
    await asyncio.sleep(rig.dice.uniform(0.2, 1.5))
    returned = time.monotonic()
    if not rig.postgres.revive():
        raise NotInjectedError("PostgreSQL did not end")
    return await after_outage(rig, began, returned)


async def freeze_postgres(rig: Rig) -> Outcome:
    """SIGSTOP of every process of PostgreSQL, and SIGCONT."""
    pids = rig.server_pids(rig.postgres)
    signal_processes(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(rig.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        send_signal(signal.SIGCONT, pids)
    return await after_outage(rig, began, returned)


async def hold_postgres(rig: Rig) -> Outcome:
    """The network to PostgreSQL drops everything."""
    if not rig.to_postgres.connections:
        raise NotInjectedError("no connection was open")
    rig.to_postgres.hold()
    began = time.monotonic()
    try:
        await asyncio.sleep(rig.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        rig.to_postgres.release()
    return await after_outage(rig, began, returned)


async def slow_postgres(rig: Rig) -> Outcome:
    """The network to PostgreSQL adds a delay."""
    rig.to_postgres.delay_seconds = rig.dice.choice((0.02, 0.1, 0.4, 1.2))
    began = time.monotonic()
    try:
        await asyncio.sleep(4.0)
    finally:
        rig.to_postgres.delay_seconds = 0.0
    return expect_answers_in_time(rig, began, Outcome(await rig.recovered()))


async def cut_postgres(rig: Rig) -> Outcome:
    """Every connection to PostgreSQL is reset, several times."""
    began = time.monotonic()
    cut = 0
    for _ in range(3):
        cut += rig.to_postgres.cut()
        await asyncio.sleep(rig.dice.uniform(0.05, 0.4))
    if not cut:
        raise NotInjectedError("no connection was open")
    return expect_answers_in_time(rig, began, Outcome(await rig.recovered()))


async def unknown_commits(rig: Rig) -> Outcome:
    """Connections are reset between a request and its answer: the outcome of the commit is unknown."""
    began, lost = time.monotonic(), rig.to_postgres.lost_answers
    for _ in range(3):
        rig.to_postgres.swallows_answers = True
        await asyncio.sleep(rig.dice.uniform(0.02, 0.15))
        rig.to_postgres.swallows_answers = False
        await asyncio.sleep(0.3)
    if rig.to_postgres.lost_answers == lost:
        raise NotInjectedError("no answer was lost")
    return expect_answers_in_time(rig, began, Outcome(await rig.recovered()))


# --- Redis --------------------------------------------------------------------------------------------------


async def kill_redis(rig: Rig) -> Outcome:
    """kill -9 of Redis."""
    signal_processes(signal.SIGKILL, rig.server_pids(rig.redis))
    began = time.monotonic()
    await asyncio.sleep(1.5)
    if not rig.redis.revive():
        raise NotInjectedError("Redis did not end")
    return await _after_redis(rig, began)


async def freeze_redis(rig: Rig) -> Outcome:
    """SIGSTOP and SIGCONT of Redis."""
    pids = rig.server_pids(rig.redis)
    signal_processes(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(2.0)
    finally:
        send_signal(signal.SIGCONT, pids)
    return await _after_redis(rig, began)


async def flush_redis(rig: Rig) -> Outcome:
    """FLUSHALL on Redis."""
    began = time.monotonic()
    async with Redis.from_url(rig.redis.url) as redis:
        await redis.flushall()
    await asyncio.sleep(1.0)
    return await _after_redis(rig, began)


async def _after_redis(rig: Rig, began: float) -> Outcome:
    asked = [each for each in rig.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("no operation ran during the fault")
    failed = rig.crowd.history.unanswered_before(began, [each for each in asked if each.outcome != "ok"])
    examples = ", ".join(f"{each.kind} {each.response_code or each.outcome}" for each in failed[:3])
    outcome = Outcome(float(len(failed)))
    outcome.expect(not failed, f"{len(failed)} of {len(asked)} decisions failed: {examples}")
    await rig.recovered()
    return outcome


async def slow_redis(rig: Rig) -> Outcome:
    """The network to Redis adds a delay, longer than its clients' timeouts."""
    if not rig.to_redis.connections:
        raise NotInjectedError("no connection was open")
    began = time.monotonic()
    rig.to_redis.delay_seconds = rig.dice.choice((0.1, 0.6, 1.5))
    try:
        await asyncio.sleep(3.0)
    finally:
        rig.to_redis.delay_seconds = 0.0
    return await _after_redis(rig, began)


async def hold_redis(rig: Rig) -> Outcome:
    """The network to Redis drops everything."""
    if not rig.to_redis.connections:
        raise NotInjectedError("no connection was open")
    began = time.monotonic()
    rig.to_redis.hold()
    try:
        await asyncio.sleep(rig.dice.uniform(1.0, 4.0))
    finally:
        rig.to_redis.release()
    return await _after_redis(rig, began)


async def cut_redis(rig: Rig) -> Outcome:
    """Every connection to Redis is reset, several times."""
    began, cut = time.monotonic(), 0
    for _ in range(4):
        cut += rig.to_redis.cut()
        await asyncio.sleep(rig.dice.uniform(0.1, 0.6))
    if not cut:
        raise NotInjectedError("no connection was open")
    return await _after_redis(rig, began)


_NORMAL: Final = "s until normal"
_ERRORS: Final = "failed decisions"

SERVER_FAULTS: Final = (
    Fault("G1", "kill -9 of all of PostgreSQL", _NORMAL, NORMAL_SECONDS_MAX, kill_postgres),
    Fault("G16", "PostgreSQL frozen", _NORMAL, NORMAL_SECONDS_MAX, freeze_postgres),
    Fault("G16", "network to PostgreSQL drops everything", _NORMAL, NORMAL_SECONDS_MAX, hold_postgres),
    Fault("G11", "slow network to PostgreSQL", _NORMAL, NORMAL_SECONDS_MAX, slow_postgres),
    Fault("G16", "connections to PostgreSQL reset", _NORMAL, NORMAL_SECONDS_MAX, cut_postgres),
    Fault(
        "G16", "connections reset between COMMIT and its answer", _NORMAL, NORMAL_SECONDS_MAX, unknown_commits
    ),
    Fault("G15", "kill -9 of Redis", _ERRORS, 0, kill_redis),
    Fault("G15", "Redis frozen", _ERRORS, 0, freeze_redis),
    Fault("G15", "FLUSHALL", _ERRORS, 0, flush_redis),
    Fault("G15", "slow network to Redis", _ERRORS, 0, slow_redis),
    Fault("G15", "network to Redis drops everything", _ERRORS, 0, hold_redis),
    Fault("G15", "connections to Redis reset", _ERRORS, 0, cut_redis),
)
