"""The Redis stream of wake-ups: ids of new deliveries, and no other content.

A wake-up saves a dispatcher the wait for its next sweep; correctness does not depend on it. Redis may lose,
repeat, delay or invent wake-ups, because dispatchers check each one against the database. Every call has a
time limit, and any failure of Redis raises ``StreamUnavailableError``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from engine.ids import is_id
from engine.limits import (
    REDIS_TIMEOUT_SECONDS,
    WAKE_UP_STUCK_SECONDS,
    WAKE_UP_WAIT_SECONDS,
    WAKE_UPS_KEPT_MAX,
)

STREAM: Final = "stanchion:deliveries"
GROUP: Final = "dispatchers"

_NO_GROUP: Final = "NOGROUP"
_GROUP_EXISTS: Final = "BUSYGROUP"

Result = TypeVar("Result")


class WakeUp(msgspec.Struct, frozen=True):
    """A delivery may be due."""

    delivery_id: str
    endpoint_id: str


class StreamEntry(msgspec.Struct, frozen=True):
    """One entry of the stream; ``entry_id`` acknowledges it. An entry without a wake-up is foreign and is
    only acknowledged."""

    entry_id: str
    wake_up: WakeUp | None


class StreamUnavailableError(Exception):
    """Redis gave no usable answer in time. The error holds none of Redis's text."""


class WakeUpStream:
    """A connection to the stream. ``consumer`` names a reader; a writer needs no name."""

    def __init__(self, url: str, consumer: str = "") -> None:
        self._consumer = consumer
        self._redis = Redis.from_url(
            url,
            decode_responses=True,
            encoding_errors="replace",
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            # A blocking read stays open while it waits for entries.
            socket_timeout=WAKE_UP_WAIT_SECONDS + REDIS_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )

    async def add(self, wake_ups: Iterable[WakeUp]) -> None:
        """Append; entries beyond ``WAKE_UPS_KEPT_MAX`` are trimmed, oldest first."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for wake_up in wake_ups:
                fields: dict[Any, Any] = msgspec.structs.asdict(wake_up)
                pipeline.xadd(STREAM, fields, maxlen=WAKE_UPS_KEPT_MAX, approximate=True)
            await _in_time(pipeline.execute(), REDIS_TIMEOUT_SECONDS)

    async def read(self, count: int) -> list[StreamEntry]:
        """Up to ``count`` unread wake-ups; waits for the first for a limited time."""
        wait_ms = int(WAKE_UP_WAIT_SECONDS * 1000)
        found = await self._call_group(
            lambda: self._redis.xreadgroup(GROUP, self._consumer, {STREAM: ">"}, count=count, block=wait_ms),
            WAKE_UP_WAIT_SECONDS + REDIS_TIMEOUT_SECONDS,
        )
        return _entries(found[0][1]) if found else []

    async def take_over(self, count: int) -> list[StreamEntry]:
        """Take over up to ``count`` wake-ups that their reader has left unacknowledged for too long."""
        found = await self._call_group(
            lambda: self._redis.xautoclaim(
                STREAM, GROUP, self._consumer, int(WAKE_UP_STUCK_SECONDS * 1000), "0-0", count=count
            ),
            REDIS_TIMEOUT_SECONDS,
        )
        return _entries(found[1])

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Acknowledge entries."""
        await _in_time(self._redis.xack(STREAM, GROUP, *entry_ids), REDIS_TIMEOUT_SECONDS)

    async def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        await self._redis.aclose()

    async def _call_group(self, call: Any, seconds: float) -> Any:
        """Make a call that needs the consumer group; create the group if Redis is new or was flushed."""
        try:
            return await _in_time(call(), seconds)
        except _NoGroupError:
            await self._create_group()
            return await _in_time(call(), seconds)

    async def _create_group(self) -> None:
        try:
            await _in_time(
                self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True), REDIS_TIMEOUT_SECONDS
            )
        except _GroupExistsError:
            pass  # another reader has created it


class _NoGroupError(StreamUnavailableError):
    pass


class _GroupExistsError(StreamUnavailableError):
    pass


async def _in_time(call: Awaitable[Result], seconds: float) -> Result:
    try:
        async with asyncio.timeout(seconds):
            return await call
    except ResponseError as refusal:
        if str(refusal).startswith(_NO_GROUP):
            raise _NoGroupError from None
        if str(refusal).startswith(_GROUP_EXISTS):
            raise _GroupExistsError from None
        raise StreamUnavailableError(type(refusal).__name__) from None
    except (RedisError, OSError, TimeoutError) as failure:
        raise StreamUnavailableError(type(failure).__name__) from None


def _entries(found: Any) -> list[StreamEntry]:
    return [StreamEntry(entry_id, _wake_up(fields or {})) for entry_id, fields in found]


def _wake_up(fields: dict[str, str]) -> WakeUp | None:
    delivery_id, endpoint_id = fields.get("delivery_id", ""), fields.get("endpoint_id", "")
    return WakeUp(delivery_id, endpoint_id) if is_id(delivery_id) and is_id(endpoint_id) else None
