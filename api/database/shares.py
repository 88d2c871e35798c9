"""Shares of the connection pool, so that no tenant can starve the others.

A tenant's share is half the pool divided by the number of tenants that hold connections, which leaves room
for further tenants. Requests beyond the share wait in their tenant's own queue. A free connection goes to the
waiting tenant that holds the fewest. One connection is reserved for the server's own work: token look-ups
and sweepers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from api.http.problems import Refusal
from engine.limits import POOL_RESERVED, POOL_WAITING_OF_TENANT_MAX

Queue: TypeAlias = "deque[asyncio.Future[None]]"


class Shares:
    """Divides the ``size`` connections of one pool between tenants."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._held: Counter[str | None] = Counter()
        self._waiting: dict[str | None, Queue] = {}

    @asynccontextmanager
    async def place(self, tenant: str | None) -> AsyncIterator[None]:
        """Permission for ``tenant`` to use one connection. Raises ``Refusal`` 429 when too many of its
        requests wait."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    async def _take(self, tenant: str | None) -> None:
        if tenant not in self._waiting and self._may_take(tenant):
            self._grant(tenant)
            return
        queue = self._waiting.setdefault(tenant, deque())
        if tenant is not None and len(queue) >= POOL_WAITING_OF_TENANT_MAX:
            raise Refusal("rate-limited", headers={"Retry-After": "1"})
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
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
        holders = len(self._held.keys() | {tenant}) - (None in self._held)
        spare = self._size - POOL_RESERVED
        share = max(1, spare // (2 * holders))
        return self._free > min(POOL_RESERVED, self._size - 1) and self._held[tenant] < share

    def _grant(self, tenant: str | None) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _give_back(self, tenant: str | None) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        if tenant in self._waiting:
            # Requeue the tenant behind others that hold as few connections and have waited longer.
            self._waiting[tenant] = self._waiting.pop(tenant)
        self._pass_on()

    def _pass_on(self) -> None:
        """Grant free connections to waiters: the server itself first, then the tenant that holds the
        fewest."""
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
