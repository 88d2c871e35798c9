"""Admission of a request: access token (401), rate limit (429) and permission (403), in this order.

Calls that the console makes in process carry the caller of the session instead of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import Request

from api.access.permissions import Permission, permit
from api.access.rate_limits import RateLimits
from api.access.tokens import Caller, Tokens
from api.fairness.request_policy import Pace, RequestPolicy
from api.fairness.shares import Shares
from api.fairness.use import USE, Measured
from api.http.scope import SESSION_CALLER, TENANT
from api.services import Services
from engine.limits import (
    CAPACITY_OF_TENANT_MIN,
    CAPACITY_OF_TENANT_RISE,
    COMPANY_SECONDS,
    LOOP_TURN_SECONDS_MAX,
    LOOP_TURNS_SECONDS,
    PLACE_REST_SECONDS_MAX,
    PLACES_OF_TENANT_MIN,
    REQUEST_WAIT_SECONDS_MAX,
    REQUESTS_AT_ONCE_MAX,
    REQUESTS_OF_TENANT_FEW,
    REQUESTS_OF_TENANT_MAX,
    REQUESTS_WAITING_OF_TENANT_MAX,
)

T = TypeVar("T")

KYC_WRITES: Final = "kyc:write"
"""The scope whose operations have a rate limit of their own."""


class Admission:
    """Admits the requests of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._tokens = Tokens(services)
        self._limits = limits
        policy = RequestPolicy(
            Pace(
                places=REQUESTS_OF_TENANT_MAX,
                few=REQUESTS_OF_TENANT_FEW,
                places_min=PLACES_OF_TENANT_MIN,
                company_seconds=COMPANY_SECONDS,
                turn_seconds=LOOP_TURN_SECONDS_MAX,
                window_seconds=LOOP_TURNS_SECONDS,
                capacity_min=CAPACITY_OF_TENANT_MIN,
                rest_seconds_max=PLACE_REST_SECONDS_MAX,
                rise=CAPACITY_OF_TENANT_RISE,
            )
        )
        self._requests = Shares(
            REQUESTS_AT_ONCE_MAX,
            policy,
            waiting=REQUESTS_WAITING_OF_TENANT_MAX,
            wait_seconds=REQUEST_WAIT_SECONDS_MAX,
        )

    async def handle(self, caller: Caller, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Handle an admitted request, whose body has arrived, by ``work`` as soon as it is its turn. Raises
        ``Refusal`` 429 when too many requests of the tenant wait, or this one has waited too long."""
        async with self._requests.place(caller.tenant_id) as use:
            USE.set(use)
            return await Measured(work(), use)

    async def admit(self, request: Request, permission: Permission) -> Caller:
        """The caller, who has ``permission``. Raises ``Refusal`` 401, 429 or 403."""
        session_caller: Caller | None = request.scope.get(SESSION_CALLER)
        caller = session_caller or await self._tokens.caller(request)
        TENANT.set(caller.tenant_id)
        # Simulations have no rate limit: the network and the card's owner shed load themselves.
        if caller.live or not permission.test_mode_only:
            await self._limits.admit(caller)
        permit(permission, caller)
        if permission.scope == KYC_WRITES:
            await self._limits.admit_kyc_write(caller)
        return caller
