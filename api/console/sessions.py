"""Sessions of the console: a client's credentials, exchanged for a random id in a cookie.

A session is a row with the hash of that id. It ends after twelve hours, at sign-out, or when its client is
revoked, and it is valid for the console only. The cookie is ``HttpOnly`` and ``SameSite=Lax``, so that links to pages
work from elsewhere. Forms are accepted from the console's own pages only, with the token of the session.
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import structlog
from starlette.requests import Request
from starlette.responses import Response

from api.access.credentials import PROVEN, ROLE
from api.access.oauth import TokenEndpoint
from api.access.tokens import Caller
from api.console.templating import Addresses
from api.console.view import Session
from api.database.pool import Connection, fetch_row, transaction
from api.http.problems import Refusal
from api.http.scope import REQUEST_ID
from api.operations.acts import SIGN_IN, SIGN_OUT, Change, write_act
from api.services import Services
from engine.acts import Act, View
from engine.limits import CONSOLE_SESSION_HOURS, SECRET_BYTES

COOKIE: Final = "stanchion_console"
SESSION_PURPOSE: Final = "console-session"
CSRF_PURPOSE: Final = "console-csrf"
SESSION_SECONDS: Final = CONSOLE_SESSION_HOURS * 3_600
ID_CHARS_MAX: Final = 128

_log = structlog.get_logger(__name__)

_BEGIN: Final = f"""
    WITH proven AS (
        SELECT id, tenant_id, live FROM clients
        WHERE id = $2::uuid AND {PROVEN.format(digest="$3")} FOR SHARE
    ), begun AS (
        INSERT INTO console_sessions (id_digest, client, expires_at)
        SELECT $1, id, now() + interval '{SESSION_SECONDS} seconds' FROM proven
    )
    SELECT id::text AS client, tenant_id::text, live FROM proven
"""
# Each sign-in deletes two expired sessions, so the table stays as large as the sessions in use.
_SWEEP: Final = """
    DELETE FROM console_sessions WHERE id_digest IN (
        SELECT id_digest FROM console_sessions WHERE expires_at < now()
        ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED)
"""
_FIND: Final = f"""
    SELECT c.id::text AS client, c.tenant_id::text, c.live, {ROLE.format("c")}, c.scopes,
           coalesce(c.name, c.client_id) AS name, (extract(epoch FROM s.expires_at) * 1000)::bigint AS expires_ms
    FROM console_sessions s JOIN clients c ON c.id = s.client
    WHERE s.id_digest = $1 AND s.expires_at > now() AND c.revoked_at IS NULL
"""
_END: Final = """
    DELETE FROM console_sessions s USING clients c WHERE s.id_digest = $1 AND c.id = s.client
    RETURNING c.id::text AS client, c.tenant_id::text, c.live
"""


class SessionParty(NamedTuple):
    """Tenant and mode of a session."""

    tenant_id: str
    live: bool


class Sessions:
    """The sessions of one API server's console."""

    def __init__(self, services: Services, endpoint: TokenEndpoint) -> None:
        self._services = services
        self._endpoint = endpoint

    async def begin(self, request: Request, response: Response, client_id: str, secret: str) -> None:
        """Begin a session of the client and set its cookie on ``response``. Raises ``Refusal`` 401 or 429."""
        client = await self._endpoint.authenticate(request, client_id, secret)
        session_id = secrets.token_urlsafe(SECRET_BYTES)
        async with transaction(self._services.pool) as connection:
            begun = await connection.fetchrow(
                _BEGIN, self._digest(session_id), client.id, client.secret_digest
            )
            if begun is None:
                raise Refusal("invalid-client")
            await connection.execute(_SWEEP)
            await self._record(connection, request, SIGN_IN, begun)
        _log.info("signed_in", every=True, client=begun["client"])
        response.set_cookie(
            COOKIE,
            session_id,
            max_age=SESSION_SECONDS,
            path=Addresses(request).url(),
            secure=request.scope["scheme"] == "https",
            httponly=True,
            samesite="lax",
        )

    async def end(self, request: Request, response: Response) -> None:
        """Delete the session, and its cookie through ``response``."""
        session_id = request.cookies.get(COOKIE, "")[:ID_CHARS_MAX]
        async with transaction(self._services.pool) as connection:
            ended = await connection.fetchrow(_END, self._digest(session_id))
            if ended is not None:
                await self._record(connection, request, SIGN_OUT, ended)
        if ended is not None:
            _log.info("signed_out", every=True, client=ended["client"])
        response.delete_cookie(COOKIE, path=Addresses(request).url(), httponly=True, samesite="lax")

    async def find(self, request: Request) -> Session | None:
        """The request's session; ``None`` without a valid one."""
        session_id = request.cookies.get(COOKIE)
        if not session_id or len(session_id) > ID_CHARS_MAX:
            return None
        row = await fetch_row(self._services.pool, _FIND, self._digest(session_id))
        if row is None:
            return None
        fields = {name: row[name] for name in ("client", "tenant_id", "live", "role", "expires_ms")}
        caller = Caller(**fields, scopes=frozenset(row["scopes"]))
        return Session(caller, self._csrf(session_id), row["name"])

    async def _record(
        self, connection: Connection, request: Request, act: str, session: asyncpg.Record
    ) -> None:
        """Record that the client's session has begun or ended."""
        states: tuple[View, View] = ({"session": "none"}, {"session": "open"})
        before, after = states if act == SIGN_IN else reversed(states)
        change = Change("client", session["client"], before, after)
        party = SessionParty(session["tenant_id"], session["live"])
        made = Act(act, session["client"], request.scope[REQUEST_ID])
        await write_act(connection, made, party, change, self._services.clock.now_ms())

    def _csrf(self, session_id: str) -> str:
        return self._services.vault.digest(CSRF_PURPOSE, session_id.encode()).hex()

    def _digest(self, session_id: str) -> bytes:
        return self._services.vault.digest(SESSION_PURPOSE, session_id.encode())


def from_this_page(request: Request) -> bool:
    """Whether a page of the same origin sent the form. Browsers set these headers; scripts cannot forge
    them."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        return False
