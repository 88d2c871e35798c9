"""Faults of the two servers, and of the network in between."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Final

from redis.asyncio import Redis

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults import (
    ANSWER_SECONDS_MAX,
    IN_FLIGHT_SECONDS,
    NORMAL_SECONDS_MAX,
    Fault,
    Outcome,
    strike,
)
from ops.chaos.processes import send
from ops.chaos.stage import Stage

# --- PostgreSQL ---------------------------------------------------------------------------------------------


async def kill_postgres(stage: Stage) -> Outcome:
    """kill -9 of every process of PostgreSQL."""
    strike(signal.SIGKILL, stage.server_pids(stage.postgres))
    began = time.monotonic()
    await asyncio.sleep(stage.dice.uniform(0.2, 1.5))
    returned = time.monotonic()
    if not stage.postgres.revive():
        raise NotInjectedError("PostgreSQL lived on")
    return await after_outage(stage, began, returned)


async def freeze_postgres(stage: Stage) -> Outcome:
    """SIGSTOP of every process of PostgreSQL, and SIGCONT."""
    pids = stage.server_pids(stage.postgres)
    strike(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(stage.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        send(signal.SIGCONT, pids)
    return await after_outage(stage, began, returned)


async def hold_postgres(stage: Stage) -> Outcome:
    """The network to PostgreSQL swallows everything."""
    if not stage.to_postgres.connections:
        raise NotInjectedError("nobody is connected")
    stage.to_postgres.hold()
    began = time.monotonic()
    try:
        await asyncio.sleep(stage.dice.uniform(1.0, 5.0))
    finally:
        returned = time.monotonic()
        stage.to_postgres.release()
    return await after_outage(stage, began, returned)


async def after_outage(stage: Stage, began: float, returned: float) -> Outcome:
    """Nothing is approved while it lasts, everyone is answered in time, service returns by itself."""
    normal_seconds = await stage.back()
    outcome = Outcome(normal_seconds)
    asked = [each for each in stage.crowd.history.since(began - ANSWER_SECONDS_MAX) if each.ended is not None]
    meanwhile = [each for each in asked if began + IN_FLIGHT_SECONDS < (each.ended or 0.0) < returned]
    approvals = sum(each.outcome == "ok" and each.began > began for each in meanwhile)
    outcome.expect(not approvals, f"{approvals} answers of an owner without its journal")
    waited = max(((each.ended or 0.0) - each.began for each in asked if each.response_code), default=0.0)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    if not any(each.began < returned and (each.ended or 0.0) > began for each in asked):
        raise NotInjectedError("nobody asked anything meanwhile")
    return outcome


async def slow_postgres(stage: Stage) -> Outcome:
    """Every byte to and from PostgreSQL is late."""
    stage.to_postgres.delay_seconds = stage.dice.choice((0.02, 0.1, 0.4, 1.2))
    began = time.monotonic()
    try:
        await asyncio.sleep(4.0)
    finally:
        stage.to_postgres.delay_seconds = 0.0
    return answered_in_time(stage, began, Outcome(await stage.back()))


async def cut_postgres(stage: Stage) -> Outcome:
    """Every connection to PostgreSQL is reset, several times."""
    began = time.monotonic()
    cut = 0
    for _ in range(3):
        cut += stage.to_postgres.cut()
        await asyncio.sleep(stage.dice.uniform(0.05, 0.4))
    if not cut:
        raise NotInjectedError("nobody was connected")
    return answered_in_time(stage, began, Outcome(await stage.back()))


async def unknown_commits(stage: Stage) -> Outcome:
    """Connections are reset between a request and its answer: nobody knows what was committed."""
    began, lost = time.monotonic(), stage.to_postgres.lost_answers
    for _ in range(3):
        stage.to_postgres.swallows_answers = True
        await asyncio.sleep(stage.dice.uniform(0.02, 0.15))
        stage.to_postgres.swallows_answers = False
        await asyncio.sleep(0.3)
    if stage.to_postgres.lost_answers == lost:
        raise NotInjectedError("no answer was lost")
    return answered_in_time(stage, began, Outcome(await stage.back()))


def answered_in_time(stage: Stage, began: float, outcome: Outcome) -> Outcome:
    """Whoever asked since was answered by the deadline and a second."""
    asked = [
        each for each in stage.crowd.history.since(began) if each.ended is not None and each.response_code
    ]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    waited = max((each.ended or 0.0) - each.began for each in asked)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    return outcome


# --- Redis --------------------------------------------------------------------------------------------------


async def kill_redis(stage: Stage) -> Outcome:
    """kill -9 of Redis."""
    strike(signal.SIGKILL, stage.server_pids(stage.redis))
    began = time.monotonic()
    await asyncio.sleep(1.5)
    if not stage.redis.revive():
        raise NotInjectedError("Redis lived on")
    return await _after_redis(stage, began)


async def freeze_redis(stage: Stage) -> Outcome:
    """SIGSTOP and SIGCONT of Redis."""
    pids = stage.server_pids(stage.redis)
    strike(signal.SIGSTOP, pids)
    began = time.monotonic()
    try:
        await asyncio.sleep(2.0)
    finally:
        send(signal.SIGCONT, pids)
    return await _after_redis(stage, began)


async def flush_redis(stage: Stage) -> Outcome:
    """FLUSHALL."""
    began = time.monotonic()
    async with Redis.from_url(stage.redis.url) as redis:
        await redis.flushall()
    await asyncio.sleep(1.0)
    return await _after_redis(stage, began)


async def _after_redis(stage: Stage, began: float) -> Outcome:
    asked = [each for each in stage.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    failed = [each for each in asked if each.outcome != "ok"]
    heard = ", ".join(f"{each.kind} {each.response_code or each.outcome}" for each in failed[:3])
    outcome = Outcome(float(len(failed)))
    outcome.expect(not failed, f"{len(failed)} of {len(asked)} decisions failed: {heard}")
    await stage.back()
    return outcome


async def slow_redis(stage: Stage) -> Outcome:
    """Every byte to and from Redis is late, beyond what anybody waits for it."""
    if not stage.to_redis.connections:
        raise NotInjectedError("nobody is connected")
    began = time.monotonic()
    stage.to_redis.delay_seconds = stage.dice.choice((0.1, 0.6, 1.5))
    try:
        await asyncio.sleep(3.0)
    finally:
        stage.to_redis.delay_seconds = 0.0
    return await _after_redis(stage, began)


async def hold_redis(stage: Stage) -> Outcome:
    """The network to Redis swallows everything."""
    if not stage.to_redis.connections:
        raise NotInjectedError("nobody is connected")
    began = time.monotonic()
    stage.to_redis.hold()
    try:
        await asyncio.sleep(stage.dice.uniform(1.0, 4.0))
    finally:
        stage.to_redis.release()
    return await _after_redis(stage, began)


async def cut_redis(stage: Stage) -> Outcome:
    """Every connection to Redis is reset, several times."""
    began, cut = time.monotonic(), 0
    for _ in range(4):
        cut += stage.to_redis.cut()
        await asyncio.sleep(stage.dice.uniform(0.1, 0.6))
    if not cut:
        raise NotInjectedError("nobody was connected")
    return await _after_redis(stage, began)


_NORMAL: Final = "s until normal"
_ERRORS: Final = "failed decisions"

SERVER_FAULTS: Final = (
    Fault("G1", "kill -9 of all of PostgreSQL", _NORMAL, NORMAL_SECONDS_MAX, kill_postgres),
    Fault("G16", "PostgreSQL frozen", _NORMAL, NORMAL_SECONDS_MAX, freeze_postgres),
    Fault("G16", "the way to PostgreSQL swallows everything", _NORMAL, NORMAL_SECONDS_MAX, hold_postgres),
    Fault("G11", "PostgreSQL slow", _NORMAL, NORMAL_SECONDS_MAX, slow_postgres),
    Fault("G16", "connections to PostgreSQL reset", _NORMAL, NORMAL_SECONDS_MAX, cut_postgres),
    Fault("G16", "reset between COMMIT and its answer", _NORMAL, NORMAL_SECONDS_MAX, unknown_commits),
    Fault("G15", "kill -9 of Redis", _ERRORS, 0, kill_redis),
    Fault("G15", "Redis frozen", _ERRORS, 0, freeze_redis),
    Fault("G15", "FLUSHALL", _ERRORS, 0, flush_redis),
    Fault("G15", "Redis slow", _ERRORS, 0, slow_redis),
    Fault("G15", "the way to Redis swallows everything", _ERRORS, 0, hold_redis),
    Fault("G15", "connections to Redis reset", _ERRORS, 0, cut_redis),
)
