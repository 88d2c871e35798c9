"""Shares of the requests that an API server handles at once.

A server handles its requests in one event loop, so each request waits for the steps of all others. A tenant
with many open requests is slowed down while it has company and the loop is slow; any other tenant is not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection

import msgspec


class Pace(msgspec.Struct, frozen=True):
    """The settings of ``RequestPolicy``; see ``engine.limits.api``."""

    places: int
    """Requests of one tenant that are handled at once."""
    few: int
    """A tenant with more open requests is busy. The greatest capacity."""
    places_min: int
    """The places that a busy tenant keeps."""
    company_seconds: float
    """A tenant has company while another one has sent a request within this time."""
    turn_seconds: float
    """A loop is slow if a turn takes longer on average."""
    window_seconds: float
    """The time over which turns are averaged."""
    capacity_min: float
    """The least capacity of a busy tenant."""
    rest_seconds_max: float
    """The longest rest of a place, also after a request that used much."""
    rise: float
    """The rise of the capacity after a window without slow turns."""


class RequestPolicy:
    """See ``shares.Policy``.

    A busy tenant with company has a ``capacity``: the seconds for which its requests may use the server in
    each second. It has as many places, but at least ``places_min``. More places than capacity rest after each
    request, for so long that together they keep to it. While a tenant has company, each request measures one
    turn of the loop. After each window with slow turns the capacity is halved, after any other it rises.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.capacity = float(pace.few)
        self._window_began = 0.0
        self._turns = 0
        self._turning_seconds = 0.0
        self._last = ("", -math.inf)
        self._last_of_another = ("", -math.inf)
        """The last request of any tenant, and the last one of any other tenant than that."""

    def asked(self, tenant: str) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if tenant != self._last[0]:
            self._last_of_another = self._last
        self._last = (tenant, now)
        if self._has_company(tenant):
            loop.call_soon(self._turned, loop, now)

    def share(self, tenant: str, open_: int, _holders: Collection[str]) -> int:
        if not self._is_slowed(tenant, open_):
            return self._pace.places
        return self._places

    def rest(self, tenant: str, open_: int, used_seconds: float) -> float:
        if not self._is_slowed(tenant, open_):
            return 0.0
        rest = used_seconds * max(0.0, self._places / self.capacity - 1)
        return min(rest, self._pace.rest_seconds_max)

    @property
    def _places(self) -> int:
        return max(self._pace.places_min, int(self.capacity))

    def _is_slowed(self, tenant: str, open_: int) -> bool:
        return open_ > self._pace.few and self._has_company(tenant)

    def _has_company(self, tenant: str) -> bool:
        _, at = self._last_of_another if tenant == self._last[0] else self._last
        return asyncio.get_running_loop().time() - at < self._pace.company_seconds

    def _turned(self, loop: asyncio.AbstractEventLoop, began: float) -> None:
        """One turn of the loop has ended."""
        now = loop.time()
        self._turns += 1
        self._turning_seconds += now - began
        if now - self._window_began < self._pace.window_seconds:
            return
        slow = self._turning_seconds > self._turns * self._pace.turn_seconds
        self._window_began, self._turns, self._turning_seconds = now, 0, 0.0
        if slow:
            self.capacity = max(self._pace.capacity_min, self.capacity / 2)
        else:
            self.capacity = min(self._pace.few, self.capacity + self._pace.rise)
