"""Rate limits for each source address, counted in fixed windows in each server's memory."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.requests import Request

from actors.source_address import source_of
from api.http.problems import Refusal
from engine.limits import BINDS_PER_WINDOW, CAPTURE_REQUESTS_PER_WINDOW, VISION_WINDOW_SECONDS


class Throttle:
    """The rate limits of one vision host; it accepts ``X-Forwarded-For`` from the ``trusted`` proxies
    only."""

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network]) -> None:
        self._trusted = trusted
        self._windows = FixedWindowRateLimiter(MemoryStorage())
        self._bind = RateLimitItemPerSecond(BINDS_PER_WINDOW, VISION_WINDOW_SECONDS, "bind")
        self._request = RateLimitItemPerSecond(CAPTURE_REQUESTS_PER_WINDOW, VISION_WINDOW_SECONDS, "page")

    async def admit_bind(self, request: Request) -> None:
        """Count the binding of a document type. Raises ``Refusal`` 429."""
        await self._hit(self._bind, request)

    async def admit_request(self, request: Request) -> None:
        """Count another request of the capture page. Raises ``Refusal`` 429."""
        await self._hit(self._request, request)

    def source(self, request: Request) -> str:
        """The source address of a request; for IPv6, its network of 64 bits."""
        peer = request.client.host if request.client else None
        return source_of(peer, request.headers.getlist("x-forwarded-for"), self._trusted)

    async def _hit(self, limit: RateLimitItem, request: Request) -> None:
        source = self.source(request)
        if not await self._windows.hit(limit, source):
            window = await self._windows.get_window_stats(limit, source)
            seconds = max(1, math.ceil(window.reset_time - time.time()))
            raise Refusal("rate-limited", headers={"Retry-After": str(seconds)})
