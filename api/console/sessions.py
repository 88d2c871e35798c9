"""Who looks on: a client's credentials, traded for an access token that lives in a cookie.

The token is one like any other, with the client's scopes and an hour to live, and signing out revokes it. The
cookie is sent to the console alone, never to scripts, and never along with a request that another site has
begun; forms are only taken from this very page.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from api.auth import TOKEN_PURPOSE, Caller, Tokens
from api.database import transaction
from api.oauth import TokenEndpoint
from api.problems import Refusal
from api.services import Services
from engine.limits import TOKEN_SECONDS

COOKIE: Final = "stanchion_console"
PATH: Final = "/console"
_REVOKE: Final = "UPDATE access_tokens SET revoked_at = now() WHERE token_digest = $1 AND revoked_at IS NULL"


class Sessions:
    """The sessions of one API server's console."""

    def __init__(self, services: Services, tokens: Tokens, endpoint: TokenEndpoint) -> None:
        self._services = services
        self._tokens = tokens
        self._endpoint = endpoint

    async def begin(self, request: Request, response: Response, client_id: str, secret: str) -> None:
        """Have ``response`` carry a session of the client. Raises ``Refusal`` 401 or 429."""
        client, scopes = await self._endpoint.authenticate(client_id, secret)
        token = await self._endpoint.issue(client, scopes)
        response.set_cookie(
            COOKIE,
            token,
            max_age=TOKEN_SECONDS,
            path=PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    async def end(self, request: Request, response: Response) -> None:
        """Revoke the session's token and have ``response`` take the cookie away."""
        digest = self._services.vault.digest(TOKEN_PURPOSE, request.cookies.get(COOKIE, "").encode())
        async with transaction(self._services.pool) as connection:
            await connection.execute(_REVOKE, digest)
        response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="strict")

    async def caller(self, request: Request) -> Caller | None:
        """The client behind the session, if there is one."""
        token = request.cookies.get(COOKIE)
        if not token:
            return None
        try:
            return await self._tokens.bearer(token)
        except Refusal:
            return None


def from_this_page(request: Request) -> bool:
    """Whether a form was sent by a page of this very origin. Browsers say so and scripts cannot forge it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
