"""Sessions of the console: a random id in a cookie, for a user or for an API client in test mode.

A session is a row with the hash of that id. It ends after twelve hours, at sign-out, when another session of
its user ends it, when its user is disabled, or when its client is revoked. It is valid for the console only.
The cookie is ``HttpOnly`` and ``SameSite=Lax``, so that links to pages work from elsewhere. Forms are
accepted from the console's own pages only, with the token of the session.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import structlog
from starlette.requests import Request
from starlette.responses import Response

from actors.source_address import source_of
from api.access.credentials import PROVEN, ROLE
from api.access.oauth import TokenEndpoint
from api.access.tokens import Caller
from api.console.templating import Addresses
from api.console.view import Form, Person, Session
from api.database.pool import Connection, connected, fetch, fetch_row, transaction
from api.http.problems import Refusal
from api.http.scope import REQUEST_ID
from api.operations.acts import SIGN_IN, SIGN_OUT, Change, write_act
from api.services import Services
from api.users.accounts import Account, account_of, set_zone, signed_in
from api.users.kind import KIND
from engine.acts import Act, View
from engine.limits import CONSOLE_SESSION_HOURS, ONE_TIME_CODE_SECONDS, SECRET_BYTES
from engine.scopes import Mode

COOKIE: Final = "stanchion_console"
SESSION_PURPOSE: Final = "console-session"
CSRF_PURPOSE: Final = "console-csrf"
CSRF_HEADER: Final = "x-csrf-token"
SESSION_SECONDS: Final = CONSOLE_SESSION_HOURS * 3_600
ID_CHARS_MAX: Final = 128
AGENT_CHARS_MAX: Final = 200

_log = structlog.get_logger(__name__)

_BEGIN_OF_CLIENT: Final = f"""
    WITH proven AS (
        SELECT id, tenant_id, live FROM clients
        WHERE id = $2::uuid AND NOT live AND {PROVEN.format(digest="$3")} FOR SHARE
    ), begun AS (
        INSERT INTO console_sessions (id_digest, client, source, agent, expires_at)
        SELECT $1, id, $4, $5, now() + interval '{SESSION_SECONDS} seconds' FROM proven
    )
    SELECT id::text, tenant_id::text, live FROM proven
"""
_BEGIN_OF_USER: Final = """
    INSERT INTO console_sessions (id_digest, user_id, live, zone, awaits_code, source, agent, expires_at)
    SELECT $1, u.id, $3, u.zone, $4, $5, $6, now() + make_interval(secs => $7) FROM users u
    WHERE u.id = $2::uuid AND u.disabled_at IS NULL
    RETURNING true
"""
# Each sign-in deletes two expired sessions, so the table stays as large as the sessions in use.
_SWEEP: Final = """
    DELETE FROM console_sessions WHERE id_digest IN (
        SELECT id_digest FROM console_sessions WHERE expires_at < now()
        ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED)
"""
_FIND: Final = f"""
    SELECT s.id::text AS session, s.user_id::text, s.live, s.zone, s.awaits_code,
           (extract(epoch FROM s.expires_at) * 1000)::bigint AS expires_ms,
           c.id::text AS client, c.tenant_id::text, {ROLE.format("c")}, c.scopes,
           coalesce(c.name, c.client_id) AS name, t.name AS tenant
    FROM console_sessions s
    LEFT JOIN clients c ON c.id = s.client AND c.revoked_at IS NULL AND NOT c.live
    LEFT JOIN tenants t ON t.id = c.tenant_id
    WHERE s.id_digest = $1 AND s.expires_at > now() AND (c.id IS NOT NULL OR s.user_id IS NOT NULL)
"""
_END: Final = """
    DELETE FROM console_sessions s WHERE s.id_digest = $1
    RETURNING s.client::text, s.user_id::text, s.live, s.awaits_code,
              coalesce((SELECT tenant_id FROM clients WHERE id = s.client),
                       (SELECT tenant_id FROM users WHERE id = s.user_id))::text AS tenant_id
"""
_FORGET: Final = "DELETE FROM console_sessions WHERE id_digest = $1"
_END_ALL: Final = "DELETE FROM console_sessions WHERE user_id = $1::uuid"
_OF_USER: Final = """
    SELECT id::text, created_at, expires_at, source, agent FROM console_sessions
    WHERE user_id = $1::uuid AND expires_at > now() AND NOT awaits_code ORDER BY created_at DESC LIMIT 100
"""
_END_ONE: Final = "DELETE FROM console_sessions WHERE user_id = $1::uuid AND id = $2::uuid RETURNING true"
_END_OTHERS: Final = """
    WITH ended AS (DELETE FROM console_sessions WHERE user_id = $1::uuid AND id <> $2::uuid RETURNING 1)
    SELECT count(*) FROM ended
"""
_SET_LIVE: Final = "UPDATE console_sessions SET live = $2 WHERE id = $1::uuid"
_SET_ZONE: Final = "UPDATE console_sessions SET zone = $2 WHERE id = $1::uuid"


# In this order: browsers also name those that they resemble.
_BROWSERS: Final = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
_SYSTEMS: Final = {
    "Windows": "Windows",
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


class SessionParty(NamedTuple):
    """Tenant and mode of a session."""

    tenant_id: str
    live: bool


class OpenSession(NamedTuple):
    """A session of a user, as its user sees it."""

    id: str
    created_at: datetime
    expires_at: datetime
    source: str
    """The address from which the user signed in; of IPv6 the first half."""
    agent: str
    """The browser, as it names itself."""

    @property
    def browser(self) -> str:
        """The browser and its system in two words."""
        browser = next((name for mark, name in _BROWSERS.items() if mark in self.agent), "Unknown browser")
        system = next((name for mark, name in _SYSTEMS.items() if mark in self.agent), None)
        return browser if system is None else f"{browser}, {system}"


class Sessions:
    """The sessions of one API server's console."""

    def __init__(self, services: Services, endpoint: TokenEndpoint) -> None:
        self._services = services
        self._endpoint = endpoint

    async def begin_of_client(
        self, request: Request, response: Response, client_id: str, secret: str
    ) -> None:
        """Begin a session of a client in test mode and set its cookie on ``response``. Raises ``Refusal`` 401
        or 429."""
        client = await self._endpoint.authenticate(request, client_id, secret)
        session_id = secrets.token_urlsafe(SECRET_BYTES)
        async with transaction(self._services.pool) as connection:
            begun = await connection.fetchrow(
                _BEGIN_OF_CLIENT,
                self._digest(session_id),
                client.id,
                client.secret_digest,
                *self._origin(request),
            )
            if begun is None:
                raise Refusal("invalid-client")
            await connection.execute(_SWEEP)
            party = SessionParty(begun["tenant_id"], begun["live"])
            await self._record(connection, request, SIGN_IN, "client", begun["id"], party)
        _log.info("signed_in", every=True, client=begun["id"])
        self._set_cookie(request, response, session_id, SESSION_SECONDS)

    async def begin_of_user(
        self, connection: Connection, request: Request, response: Response, account: Account, by: str
    ) -> None:
        """Begin a session of a user who has proved all that is needed, in the connection's transaction.
        ``by``: the means, for the audit log. The session shows the ``mode`` of the query, else test mode, if
        the user may see it. Raises ``Refusal`` 401 if the user has just been disabled."""
        wanted = request.query_params.get("mode", "")
        live = (wanted if wanted in account.modes else account.first_mode) == "live"
        await self._insert(connection, request, response, account, SESSION_SECONDS, live=live)
        await signed_in(connection, account.id)
        party = SessionParty(account.tenant_id, live)
        await self._record(connection, request, SIGN_IN, KIND, account.id, party, by)
        _log.info("signed_in", every=True, user=account.id, by=by)

    async def begin_of_code(
        self, connection: Connection, request: Request, response: Response, account: Account
    ) -> None:
        """Begin the short session of a user whose one-time code is still missing."""
        await self._insert(
            connection, request, response, account, ONE_TIME_CODE_SECONDS, live=False, awaits_code=True
        )

    async def _insert(
        self,
        connection: Connection,
        request: Request,
        response: Response,
        account: Account,
        seconds: int,
        *,
        live: bool,
        awaits_code: bool = False,
    ) -> None:
        session_id = secrets.token_urlsafe(SECRET_BYTES)
        await connection.execute(_SWEEP)
        begun = await connection.fetchval(
            _BEGIN_OF_USER,
            self._digest(session_id),
            account.id,
            live,
            awaits_code,
            *self._origin(request),
            seconds,
        )
        if not begun:
            raise Refusal("unauthorized")
        self._set_cookie(request, response, session_id, seconds)

    async def forget(self, connection: Connection, request: Request) -> None:
        """Delete the session of the request's cookie, which another one replaces."""
        session_id = request.cookies.get(COOKIE, "")[:ID_CHARS_MAX]
        await connection.execute(_FORGET, self._digest(session_id))

    async def end_all(self, connection: Connection, user_id: str) -> None:
        """End every session of a user."""
        await connection.execute(_END_ALL, user_id)

    async def end(self, request: Request, response: Response) -> None:
        """Delete the session, and its cookie through ``response``."""
        session_id = request.cookies.get(COOKIE, "")[:ID_CHARS_MAX]
        async with transaction(self._services.pool) as connection:
            ended = await connection.fetchrow(_END, self._digest(session_id))
            if ended is not None and not ended["awaits_code"]:
                kind = "client" if ended["user_id"] is None else KIND
                id_ = ended["client"] or ended["user_id"]
                party = SessionParty(ended["tenant_id"], ended["live"])
                await self._record(connection, request, SIGN_OUT, kind, id_, party)
                _log.info("signed_out", every=True, **{kind: id_})
        response.delete_cookie(COOKIE, path=Addresses(request).url(), httponly=True, samesite="lax")

    async def find(self, request: Request) -> Session | None:
        """The request's session; ``None`` without a valid one."""
        row = await self._row(request)
        if row is None or row["awaits_code"]:
            return None
        if row["user_id"] is None:
            return self._of_client(request, row)
        async with connected(self._services.pool) as connection:
            account = await account_of(connection, row["user_id"])
        live: bool = row["live"]
        if account is None or ("live" if live else "test") not in account.modes:
            return None
        caller = account.caller(live=live, expires_ms=row["expires_ms"])
        person = Person(account.id, account.name, account.email, tuple(account.modes))
        return Session(
            row["session"], caller, self.csrf(request), account.name, account.tenant, row["zone"], person
        )

    def _of_client(self, request: Request, row: asyncpg.Record) -> Session:
        caller = Caller(
            row["client"], row["tenant_id"], False, row["role"], frozenset(row["scopes"]), row["expires_ms"]
        )
        return Session(row["session"], caller, self.csrf(request), row["name"], row["tenant"], row["zone"])

    async def user_awaiting_code(self, request: Request) -> str | None:
        """The id of the user whose password was right and whose one-time code is still missing."""
        row = await self._row(request)
        user: str | None = row["user_id"] if row is not None and row["awaits_code"] else None
        return user

    async def _row(self, request: Request) -> asyncpg.Record | None:
        session_id = request.cookies.get(COOKIE)
        if not session_id or len(session_id) > ID_CHARS_MAX:
            return None
        return await fetch_row(self._services.pool, _FIND, self._digest(session_id))

    def csrf(self, request: Request) -> str:
        """The token of the forms of the request's session."""
        session_id = request.cookies.get(COOKIE, "")[:ID_CHARS_MAX]
        return self._services.vault.digest(CSRF_PURPOSE, session_id.encode()).hex()

    def is_own_form(self, request: Request, form: Form) -> bool:
        """Whether a page of the request's session sent ``form``: its origin and its token are right."""
        token = form.get("csrf") or request.headers.get(CSRF_HEADER, "")
        own = hmac.compare_digest(token.encode(), self.csrf(request).encode())
        return own and from_this_page(request)

    async def _record(
        self,
        connection: Connection,
        request: Request,
        act: str,
        kind: str,
        id_: str,
        party: SessionParty,
        by: str | None = None,
    ) -> None:
        """Record that a session of the client or user has begun or ended."""
        states: tuple[View, View] = ({"session": "none"}, {"session": "open"} | ({"by": by} if by else {}))
        before, after = states if act == SIGN_IN else reversed(states)
        made = Act(act, id_, request.scope[REQUEST_ID], "client" if kind == "client" else "user")
        change = Change(kind, id_, before, after)
        await write_act(connection, made, party, change, self._services.clock.now_ms())

    def _set_cookie(self, request: Request, response: Response, session_id: str, seconds: int) -> None:
        response.set_cookie(
            COOKIE,
            session_id,
            max_age=seconds,
            path=Addresses(request).url(),
            secure=request.scope["scheme"] == "https",
            httponly=True,
            samesite="lax",
        )

    def _origin(self, request: Request) -> tuple[str, str]:
        """Source address and browser of a sign-in, as its user sees them in the list of sessions."""
        peer = request.client.host if request.client else None
        trusted = self._services.settings.trusted_proxies
        source = source_of(peer, request.headers.getlist("x-forwarded-for"), trusted)
        agent = "".join(each for each in request.headers.get("user-agent", "") if each.isprintable())
        return source, agent[:AGENT_CHARS_MAX]

    def _digest(self, session_id: str) -> bytes:
        return self._services.vault.digest(SESSION_PURPOSE, session_id.encode())


async def sessions_of(services: Services, user_id: str) -> list[OpenSession]:
    """The open sessions of a user, newest first."""
    return [OpenSession(*row) for row in await fetch(services.pool, _OF_USER, user_id)]


async def end_session(connection: Connection, user_id: str, session_id: str) -> bool:
    """End one session of a user; ``False`` if there is no such session."""
    return bool(await connection.fetchval(_END_ONE, user_id, session_id))


async def end_other_sessions(connection: Connection, session: Session) -> int:
    """End all sessions of the session's user but this one; returns their number."""
    ended: int = await connection.fetchval(_END_OTHERS, session.caller.id, session.id)
    return ended


async def choose_mode(services: Services, session: Session, mode: Mode) -> None:
    """Show the other mode in this session, which the caller has checked to be the user's."""
    async with connected(services.pool) as connection:
        await connection.execute(_SET_LIVE, session.id, mode == "live")


async def choose_zone(services: Services, session: Session, zone: str) -> None:
    """Show times in another zone, in this session and in later ones of its user."""
    async with transaction(services.pool) as connection:
        await connection.execute(_SET_ZONE, session.id, zone)
        if session.person is not None:
            await set_zone(connection, session.person.id, zone)


async def record_own_act(
    connection: Connection, services: Services, request: Request, user: Caller, act: str, after: View
) -> None:
    """Record what a user does with its own account."""
    made = Act(act, user.id, request.scope[REQUEST_ID], "user")
    await write_act(connection, made, user, Change(KIND, user.id, None, after), services.clock.now_ms())


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
