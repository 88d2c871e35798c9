"""Rate limits, counted in the memory of each API server: no limit costs a round trip."""

from __future__ import annotations

import math
import time
from typing import Final

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from starlette.requests import Request

from actors.settings import Settings
from actors.source_address import source_of
from api.access.tokens import Caller
from api.http.problems import Refusal
from engine.limits import SIGN_IN_FAILURES_PER_HOUR, TOKEN_FAILURES_PER_ADDRESS

CLIENT_ID_CHARACTERS_COUNTED: Final = 64
"""Longer client ids are counted by their first characters, to bound memory. No existing client id is as
long."""


class RateLimits:
    """The limits of one API server."""

    def __init__(self, settings: Settings) -> None:
        self._requests = FixedWindowRateLimiter(MemoryStorage())
        self._tokens = MovingWindowRateLimiter(MemoryStorage())
        self._live = RateLimitItemPerSecond(settings.rate_live_per_second, namespace="live")
        self._test = RateLimitItemPerSecond(settings.rate_test_per_second, namespace="test")
        per_client = settings.rate_token_per_minute
        self._failures_of_client = RateLimitItemPerMinute(per_client)
        self._failures_of_source = RateLimitItemPerMinute(per_client * TOKEN_FAILURES_PER_ADDRESS)
        self._passwords_of_name = RateLimitItemPerHour(SIGN_IN_FAILURES_PER_HOUR)
        self._trusted = settings.trusted_proxies
        self._kyc_writes = MovingWindowRateLimiter(MemoryStorage())
        self._kyc_write = RateLimitItemPerMinute(settings.rate_kyc_writes_per_minute)

    async def admit(self, caller: Caller) -> None:
        """Count a request of the caller's tenant in its mode. Raises ``Refusal`` 429."""
        limit = self._live if caller.live else self._test
        if not await self._requests.hit(limit, caller.tenant_id):
            raise _limited(1)

    async def count_failed_authentication(self, request: Request, client_id: str) -> None:
        """Count a wrong secret or an unknown ``client_id``, by source address and by client id. Raises
        ``Refusal`` 429 beyond either limit. Callers with the right secret never get here.
        """
        await _hit(self._tokens, self._failures_of_source, f"address {self._source(request)}")
        await _hit(
            self._tokens, self._failures_of_client, f"client {client_id[:CLIENT_ID_CHARACTERS_COUNTED]}"
        )

    async def admit_password(self, request: Request, name: str) -> None:
        """Count a try of a user's password by sign-in name. Raises ``Refusal`` 429 beyond a limit, or if the
        source address has failed too often. Unlike a client's secret, a password can be guessed: beyond the
        limits the right one is refused, too.
        """
        source = f"address {self._source(request)}"
        if not await self._tokens.test(self._failures_of_source, source):
            raise _limited(await _wait_seconds(self._tokens, self._failures_of_source, source))
        key = f"user {name[:CLIENT_ID_CHARACTERS_COUNTED]}"
        await _hit(self._tokens, self._failures_of_client, key)
        await _hit(self._tokens, self._passwords_of_name, key)

    async def count_failed_password(self, request: Request) -> None:
        """Count a wrong password by source address."""
        await self._tokens.hit(self._failures_of_source, f"address {self._source(request)}")

    def _source(self, request: Request) -> str:
        peer = request.client.host if request.client else None
        return source_of(peer, request.headers.getlist("x-forwarded-for"), self._trusted)

    async def admit_kyc_write(self, caller: Caller) -> None:
        """Count a KYC write of the caller, repetitions included. Raises ``Refusal`` 429."""
        await _hit(self._kyc_writes, self._kyc_write, caller.id)


async def _hit(limiter: MovingWindowRateLimiter, limit: RateLimitItem, key: str) -> None:
    """Count one use by ``key``. Raises ``Refusal`` 429 with the seconds until the next one is allowed."""
    if not await limiter.hit(limit, key):
        raise _limited(await _wait_seconds(limiter, limit, key))


async def _wait_seconds(limiter: MovingWindowRateLimiter, limit: RateLimitItem, key: str) -> int:
    window = await limiter.get_window_stats(limit, key)
    return max(1, math.ceil(window.reset_time - time.time()))


def _limited(seconds: int) -> Refusal:
    return Refusal("rate-limited", headers={"Retry-After": str(seconds)})
