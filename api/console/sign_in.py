"""Signing in to the console: with e-mail address and password, a one-time code, a link, OpenID Connect, or as
an API client in test mode.

Answers do not reveal which users exist: unknown addresses, disabled users and wrong passwords take the same
work and get the same answer. Forms are never shown with their values: people paste secrets into wrong fields.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Router

from api.access.rate_limits import RateLimits
from api.console import templating
from api.console.openid import CALLBACK_PATH, START_PATH, OpenIdError, OpenIdProvider
from api.console.openid import COOKIE as OPENID_COOKIE
from api.console.sessions import Sessions, from_this_page, record_own_act
from api.console.templating import NO_STORE, PATH, Addresses
from api.console.view import Form
from api.database.pool import Connection, connected, transaction
from api.http.json_body import read_body
from api.http.problems import Refusal
from api.http.scope import OPERATION
from api.services import Services
from api.users.accounts import (
    Account,
    accept_code,
    account_of_email,
    locked_account,
    rehash,
    set_password,
)
from api.users.links import find_link, use_link
from api.users.passwords import Passwords, fault_of, is_current
from engine.limits import CONSOLE_FORM_FIELDS_MAX, PASSWORD_CHARS_MAX

NOT_ACCEPTED: Final = "These credentials are not accepted."
WRONG_CODE: Final = "This code is not accepted. After five wrong codes no code works for 15 minutes."
TOO_MANY: Final = "Too many tries. Wait a minute."
NOT_OURS: Final = "This form was not sent by this page."
LINK_ENDED: Final = "This link has been used, has expired, or is incomplete. Ask for a new one."
NOT_IDENTIFIED: Final = "The sign-in service did not identify a user of this installation."

_log = structlog.get_logger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


class SignIn:
    """The sign-in of one API server's console."""

    def __init__(
        self, services: Services, limits: RateLimits, sessions: Sessions, passwords: Passwords
    ) -> None:
        self._services = services
        self._limits = limits
        self._sessions = sessions
        self._passwords = passwords
        self._openid = OpenIdProvider(services.settings, services.vault)

    def add_to(self, router: Router) -> None:
        """Add the routes to ``router``."""
        routes: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/sign-in", self.form),
            ("POST", "/sign-in", self.sign_in),
            ("GET", "/sign-in/code", self.code_form),
            ("POST", "/sign-in/code", self.enter_code),
            ("GET", START_PATH, self.begin_openid),
            ("GET", CALLBACK_PATH, self.finish_openid),
            ("GET", "/enter/{token}", self.link),
            ("POST", "/enter/{token}", self.use_link),
        )
        for method, path, handler in routes:
            router.add_route(f"{PATH}{path}", _counted(handler), methods=[method])

    # --- password, or client ------------------------------------------------------------------------------

    async def form(self, request: Request) -> Response:
        """The form; a redirect to the console for a browser that is signed in."""
        if await self._sessions.find(request) is not None:
            return RedirectResponse(next_page(request), 303, NO_STORE)
        return self._form(request, 200, None)

    async def sign_in(self, request: Request) -> Response:
        """Begin a session, or show the form with the reason of the refusal."""
        if not from_this_page(request):
            return self._form(request, 403, NOT_OURS)
        form = await read_form(request)
        try:
            if "client_id" in form:
                response = RedirectResponse(next_page(request), 303, NO_STORE)
                await self._sessions.begin_of_client(
                    request, response, form["client_id"], form.get("client_secret", "")
                )
                return response
            return await self._with_password(request, form.get("email", ""), form.get("password", ""))
        except Refusal as refused:
            return self._refused(request, refused)

    async def _with_password(self, request: Request, email: str, password: str) -> Response:
        """The response to an address and a password. Raises ``Refusal`` 401 or 429."""
        await self._limits.admit_password(request, email.strip().lower())
        async with connected(self._services.pool) as connection:
            account = await account_of_email(connection, email)
        stored = None if account is None else account.password_hash
        matches = await self._passwords.verify(password[: PASSWORD_CHARS_MAX + 1], stored)
        if account is None or not matches:
            await self._limits.count_failed_password(request)
            raise Refusal("unauthorized")
        renewed = None
        if stored is not None and not is_current(stored):
            renewed = await self._passwords.hash(password)
        async with transaction(self._services.pool) as connection:
            known = await locked_account(connection, account.id)
            if known is None or known.password_hash != stored:
                raise Refusal("unauthorized")
            if renewed is not None:
                await rehash(connection, known, renewed)
            if known.totp_sealed is not None:
                where = Addresses(request).url("/sign-in/code", next=_given_next(request))
                response = RedirectResponse(where, 303, NO_STORE)
                await self._sessions.begin_of_code(connection, request, response, known)
            else:
                response = RedirectResponse(next_page(request), 303, NO_STORE)
                await self._sessions.begin_of_user(connection, request, response, known, "password")
        return response

    # --- one-time code ------------------------------------------------------------------------------------

    async def code_form(self, request: Request) -> Response:
        """The form for the one-time code, after the password."""
        if await self._sessions.user_awaiting_code(request) is None:
            return RedirectResponse(Addresses(request).url("/sign-in"), 303, NO_STORE)
        return self._page("sign_in_code.html", request, 200, None, csrf=self._sessions.csrf(request))

    async def enter_code(self, request: Request) -> Response:
        """Begin the session if the code is right."""
        form = await read_form(request)
        user_id = await self._sessions.user_awaiting_code(request)
        if user_id is None:
            return RedirectResponse(Addresses(request).url("/sign-in"), 303, NO_STORE)
        if not self._sessions.is_own_form(request, form):
            return self._form(request, 403, NOT_OURS)
        response = RedirectResponse(next_page(request), 303, NO_STORE)
        now_ms = self._services.clock.now_ms()
        async with transaction(self._services.pool) as connection:
            account = await locked_account(connection, user_id)
            accepted = account is not None and await accept_code(
                connection, self._services.vault, account, form.get("code", ""), now_ms
            )
            if account is not None and accepted:
                await self._sessions.forget(connection, request)
                await self._sessions.begin_of_user(
                    connection, request, response, account, "password and code"
                )
        if not accepted:
            _log.warning("sign_in_refused", status=401, user=user_id, by="code")
            return self._page(
                "sign_in_code.html", request, 401, WRONG_CODE, csrf=self._sessions.csrf(request)
            )
        return response

    # --- links --------------------------------------------------------------------------------------------

    async def link(self, request: Request) -> Response:
        """The page of a link. Opening it does not use it: programs that preview links open them, too."""
        async with connected(self._services.pool) as connection:
            user = await find_link(connection, self._services.vault, request.path_params["token"])
        if user is None:
            return self._form(request, 404, LINK_ENDED)
        return self._page("sign_in_link.html", request, 200, None, user=user)

    async def use_link(self, request: Request) -> Response:
        """Begin the session of the link's user; an invitation first sets the password."""
        if not from_this_page(request):
            return self._form(request, 403, NOT_OURS)
        form, token = await read_form(request), request.path_params["token"]
        vault = self._services.vault
        async with connected(self._services.pool) as connection:
            user = await find_link(connection, vault, token)
        if user is None:
            return self._form(request, 404, LINK_ENDED)
        password_hash = None
        if user.purpose == "invitation":
            password = form.get("password", "")
            fault = fault_of(password, user.email, user.name)
            if fault is None and password != form.get("again", ""):
                fault = "The two passwords differ."
            if fault is not None:
                return self._page("sign_in_link.html", request, 400, fault, user=user)
            password_hash = await self._passwords.hash(password)
        response = RedirectResponse(Addresses(request).url(), 303, NO_STORE)
        async with transaction(self._services.pool) as connection:
            used = await use_link(connection, vault, token)
            account = None if used is None else await locked_account(connection, used.id)
            if account is not None:
                await self._welcome(connection, request, response, account, password_hash)
        return self._form(request, 404, LINK_ENDED) if account is None else response

    async def _welcome(
        self,
        connection: Connection,
        request: Request,
        response: RedirectResponse,
        account: Account,
        password_hash: str | None,
    ) -> None:
        """Begin the session of a link's user. With a new password all earlier sessions end."""
        if password_hash is None:
            await self._sessions.begin_of_user(connection, request, response, account, "link")
            return
        await set_password(connection, account.id, password_hash)
        await self._sessions.end_all(connection, account.id)
        caller = account.caller(live=account.first_mode == "live", expires_ms=0)
        done = {"password": "set"}
        await record_own_act(connection, self._services, request, caller, "set_password", done)
        if account.totp_sealed is None:
            await self._sessions.begin_of_user(connection, request, response, account, "invitation")
        else:
            response.headers["location"] = Addresses(request).url("/sign-in/code")
            await self._sessions.begin_of_code(connection, request, response, account)

    # --- OpenID Connect -----------------------------------------------------------------------------------

    async def begin_openid(self, request: Request) -> Response:
        """A redirect to the provider."""
        if not self._openid.configured:
            raise Refusal("not-found", "There is no such path.")
        try:
            return await self._openid.begin(request, next_page(request), self._services.clock.now_ms())
        except OpenIdError as failure:
            return self._openid_failed(request, failure)

    async def finish_openid(self, request: Request) -> Response:
        """Begin the session of the person whom the provider sends back."""
        if not self._openid.configured:
            raise Refusal("not-found", "There is no such path.")
        try:
            person = await self._openid.finish(request, self._services.clock.now_ms())
        except OpenIdError as failure:
            return self._openid_failed(request, failure)
        response = RedirectResponse(person.next_page, 303, NO_STORE)
        async with transaction(self._services.pool) as connection:
            account = await account_of_email(connection, person.email)
            if account is not None:
                await self._sessions.begin_of_user(connection, request, response, account, "openid")
        if account is None:
            return self._openid_failed(request, OpenIdError("unknown_user"))
        response.delete_cookie(OPENID_COOKIE, path=Addresses(request).url(START_PATH))
        return response

    def _openid_failed(self, request: Request, failure: OpenIdError) -> Response:
        _log.warning("sign_in_refused", status=401, by="openid", reason=str(failure))
        return self._form(request, 401, NOT_IDENTIFIED)

    # --- shared helpers -----------------------------------------------------------------------------------

    def _refused(self, request: Request, refused: Refusal) -> Response:
        _log.warning("sign_in_refused", status=refused.kind.status)
        if refused.kind.status == 401:
            return self._form(request, 401, NOT_ACCEPTED)
        if refused.kind.status == 429:
            return self._form(request, 429, TOO_MANY)
        raise refused

    def _form(self, request: Request, status: int, message: str | None) -> Response:
        return self._page("sign_in.html", request, status, message, openid=self._openid.configured)

    def _page(
        self, template: str, request: Request, status: int, message: str | None, **values: Any
    ) -> Response:
        given = {"message": message, "next": _given_next(request), **values}
        return templating.html(template, request, status=status, values=given)


async def read_form(request: Request) -> Form:
    """The fields of a form; empty if the body is not a form."""
    raw = await read_body(request)
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=CONSOLE_FORM_FIELDS_MAX,
        )
    except ValueError:
        return Form()
    return Form(pairs)


def next_page(request: Request) -> str:
    """The page of the console that led to the sign-in, else the first one."""
    return _given_next(request) or Addresses(request).url()


def _given_next(request: Request) -> str | None:
    """The page in the query. Addresses outside the console are ignored: a link must not lead to another
    site."""
    first = Addresses(request).url()
    wanted = request.query_params.get("next", "")
    ours = wanted.startswith((f"{first}/", f"{first}?")) and "\\" not in wanted and wanted.isprintable()
    return wanted if ours else None


def _counted(handler: Handler) -> Any:
    async def run(request: Request) -> Response:
        request.scope[OPERATION] = "console"
        return await handler(request)

    return run
