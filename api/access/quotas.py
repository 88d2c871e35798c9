"""Quotas of tenants: objects, and answers stored under idempotency keys.

Objects are counted in the database, at most once a minute for each tenant, mode and kind, and by the server
in between; so several API servers together may exceed a quota by what they create within a minute. Keys and
bytes are counted in each server's memory, as rates are, in windows of a day.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from actors.clock import Clock
from actors.settings import Settings
from api.access.tokens import Caller
from api.database.pool import Pool, connected
from api.http.problems import Refusal
from engine.limits import QUOTA_RECOUNT_SECONDS, QUOTA_TENANTS_COUNTED_MAX

Objects = Literal["programmes", "card_products", "cardholders", "cards"]

_COUNT: Final = """
    SELECT count(*) FROM (SELECT FROM {table} WHERE tenant_id = $1 AND live = $2 LIMIT $3) AS found
"""
_DAY_SECONDS: Final = 24 * 3_600


class ObjectCount(msgspec.Struct):
    """The number of one tenant's objects of one kind, read from the database at ``since`` (seconds of the
    monotonic clock) and counted since."""

    since: float
    used: int


class DayUsage(msgspec.Struct):
    """Keys and bytes of one tenant since ``since``."""

    since: float
    keys: int = 0
    stored_bytes: int = 0


class Quotas:
    """The quotas of one API server."""

    def __init__(self, settings: Settings, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._counts: dict[tuple[str, bool, str], ObjectCount] = {}
        self._days: dict[str, DayUsage] = {}
        self._keys_max = settings.quota_keys_per_day
        self._bytes_max = settings.quota_stored_mb_per_day * 1_000_000
        self._objects_max: dict[Objects, int] = {
            "programmes": settings.quota_programmes,
            "card_products": settings.quota_card_products,
            "cardholders": settings.quota_cardholders,
            "cards": settings.quota_cards,
        }

    async def admit_object(self, caller: Caller, kind: Objects) -> None:
        """Admit one more object of ``kind``. Raises ``Refusal`` 409 ``quota-reached``."""
        most = self._objects_max[kind]
        count = self._counts.get((caller.tenant_id, caller.live, kind))
        if count is None or self._clock.monotonic() - count.since >= QUOTA_RECOUNT_SECONDS:
            await self._recount(caller, kind, most)
            count = self._counts[caller.tenant_id, caller.live, kind]
        if count.used >= most:
            detail = f"The tenant has {most} {kind.replace('_', ' ')} in this mode, which is its quota."
            raise Refusal("quota-reached", detail)
        count.used += 1

    def release_object(self, caller: Caller, kind: Objects) -> None:
        """Subtract an object that was admitted and then not created."""
        count = self._counts.get((caller.tenant_id, caller.live, kind))
        if count is not None and count.used > 0:
            count.used -= 1

    def admit_key(self, caller: Caller) -> None:
        """Admit a request that may store its answer. Raises ``Refusal`` 429 ``quota-of-day-reached``."""
        day = self._day(caller.tenant_id)
        if day.keys >= self._keys_max or day.stored_bytes >= self._bytes_max:
            seconds = max(1, round(day.since + _DAY_SECONDS - self._clock.monotonic()))
            raise Refusal("quota-of-day-reached", headers={"Retry-After": str(seconds)})

    def stored(self, caller: Caller, size: int) -> None:
        """Count an answer of ``size`` bytes that was stored under a key."""
        day = self._day(caller.tenant_id)
        day.keys += 1
        day.stored_bytes += size

    async def _recount(self, caller: Caller, kind: Objects, most: int) -> None:
        now = self._clock.monotonic()
        async with connected(self._pool) as connection:
            statement = _COUNT.format(table=kind)
            used = await connection.fetchval(statement, caller.tenant_id, caller.live, most)
        key = (caller.tenant_id, caller.live, kind)
        known = self._counts.get(key)
        if known is not None and known.since > now:
            return  # a parallel request has counted later, and has admitted others since
        _drop_oldest(self._counts)
        self._counts[key] = ObjectCount(now, used)

    def _day(self, tenant_id: str) -> DayUsage:
        now = self._clock.monotonic()
        day = self._days.get(tenant_id)
        if day is None or now - day.since >= _DAY_SECONDS:
            _drop_oldest(self._days)
            day = self._days[tenant_id] = DayUsage(now)
        return day


def _drop_oldest(counts: dict[Any, Any]) -> None:
    """Drop the oldest entries, so that one more fits."""
    while len(counts) >= QUOTA_TENANTS_COUNTED_MAX:
        del counts[next(iter(counts))]
