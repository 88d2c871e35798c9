"""Shares of a limited number of places, so that no tenant can starve the others.

Each API server divides its database connections and the requests that it handles at once. A tenant that asks
for more than its share waits in a queue of its own. A free place goes to the waiting tenant that holds the
fewest.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

from api.fairness.use import Use
from api.http.problems import Refusal

Queue: TypeAlias = "deque[asyncio.Future[None]]"


class Policy(Protocol):
    """How many places a tenant may hold."""

    def asked(self, tenant: str) -> None:
        """``tenant`` asks for a place."""

    def share(self, tenant: str, open_: int, holders: Collection[str]) -> int:
        """The number of places that ``tenant`` may hold. ``open_`` of its requests hold a place or wait for
        one; ``holders`` are the tenants that hold places."""

    def rest(self, tenant: str, open_: int, used_seconds: float) -> float:
        """For how long a place stays empty after a request of ``tenant`` that used the server for
        ``used_seconds`` (``use.Use``)."""


class Shares:
    """Divides ``size`` places. ``reserved`` ones are for the server's own work, whose tenant is ``None``. At
    most ``waiting`` requests of one tenant may wait, each for at most ``wait_seconds``."""

    def __init__(
        self,
        size: int,
        policy: Policy,
        *,
        waiting: int,
        wait_seconds: float | None = None,
        reserved: int = 0,
    ) -> None:
        self._policy = policy
        self._waiting_max = waiting
        self._wait_seconds = wait_seconds
        self._reserved = min(reserved, size - 1)
        self._free = size
        self._held: Counter[str | None] = Counter()
        self._waiting: dict[str | None, Queue] = {}

    @asynccontextmanager
    async def place(self, tenant: str | None) -> AsyncIterator[Use]:
        """A place for ``tenant`` during the block, which adds to the use that it gets. Raises ``Refusal`` 429
        when too many of its requests wait, or this one has waited too long."""
        if tenant is not None:
            self._policy.asked(tenant)
        await self._take(tenant)
        use = Use()
        try:
            yield use
        finally:
            rest = 0.0
            if tenant is not None:
                rest = self._policy.rest(tenant, self._open(tenant), use.seconds)
            if rest:
                asyncio.get_running_loop().call_later(rest, self._give_back, tenant)
            else:
                self._give_back(tenant)

    async def _take(self, tenant: str | None) -> None:
        if tenant not in self._waiting and self._may_take(tenant):
            self._grant(tenant)
            return
        if tenant is not None and len(self._waiting.get(tenant, ())) >= self._waiting_max:
            raise _too_many()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._wait(tenant)
        except TimeoutError:
            raise _too_many() from None

    async def _wait(self, tenant: str | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(tenant)
            else:
                self._leave(tenant, turn)
            raise

    def _may_take(self, tenant: str | None) -> bool:
        if tenant is None:
            return self._free > 0
        if self._free <= self._reserved:
            return False
        holders = [each for each in self._held if each is not None]
        return self._held[tenant] < self._policy.share(tenant, self._open(tenant), holders)

    def _open(self, tenant: str) -> int:
        return self._held[tenant] + len(self._waiting.get(tenant, ()))

    def _grant(self, tenant: str | None) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _give_back(self, tenant: str | None) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        if tenant in self._waiting:
            # Requeue the tenant behind others that hold as few places and have waited longer.
            self._waiting[tenant] = self._waiting.pop(tenant)
        self._pass_on()

    def _pass_on(self) -> None:
        """Grant free places to waiters: the server itself first, then the tenant that holds the fewest."""
        while ready := [tenant for tenant in self._waiting if self._may_take(tenant)]:
            tenant = min(ready, key=lambda each: (each is not None, self._held.get(each, 0)))
            turn = self._waiting[tenant].popleft()
            self._tidy(tenant)
            if not turn.cancelled():
                self._grant(tenant)
                turn.set_result(None)

    def _leave(self, tenant: str | None, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant, ())
        if turn in queue:
            self._waiting[tenant].remove(turn)
            self._tidy(tenant)

    def _tidy(self, tenant: str | None) -> None:
        if not self._waiting[tenant]:
            del self._waiting[tenant]


def _too_many() -> Refusal:
    return Refusal("rate-limited", headers={"Retry-After": "1"})


class HalfOfTheRest:
    """The policy of connections: half of ``places`` divided by the number of tenants that hold some, which
    leaves room for further tenants."""

    def __init__(self, places: int) -> None:
        self._places = places

    def asked(self, _tenant: str) -> None:
        return

    def share(self, tenant: str, _open: int, holders: Collection[str]) -> int:
        return max(1, self._places // (2 * len({*holders, tenant})))

    def rest(self, _tenant: str, _open: int, _used_seconds: float) -> float:
        return 0.0
