"""Admission of a request: access token (401), rate limit (429) and permission (403), in this order.

Calls that the console makes in process carry the caller of the session instead of a token.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from api.access.permissions import Permission, permit
from api.access.rate_limits import RateLimits
from api.access.tokens import Caller, Tokens
from api.http.scope import SESSION_CALLER, TENANT
from api.services import Services

KYC_WRITES: Final = "kyc:write"
"""The scope whose operations have a rate limit of their own."""


class Admission:
    """Admits the requests of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._tokens = Tokens(services)
        self._limits = limits

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
