"""The console's routes: its pages behind a session, the sign-in, and the static files.

Every form is checked here before its handler runs: its origin, and the token of its session.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import structlog
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.access.oauth import TokenEndpoint
from api.access.rate_limits import RateLimits
from api.console import templating
from api.console.api_calls import PageProblem
from api.console.pages import (
    audit_log,
    cards,
    clients,
    events,
    home,
    kyc,
    links,
    webhook_forms,
    webhooks,
)
from api.console.sessions import Sessions, from_this_page
from api.console.templating import HEADERS, NO_STORE, PATH, Addresses, media_type_of, static_files
from api.console.view import Form, PageRoute, Session, View, problem_of
from api.http.faults import CONNECTION_FAILURES
from api.http.json_body import read_body
from api.http.problems import Refusal
from api.http.scope import OPERATION, TENANT
from api.services import Services
from engine.limits import CONSOLE_FORM_FIELDS_MAX

PAGE_MODULES: Final = (
    home,
    cards,
    kyc,
    webhook_forms,
    webhooks,
    events,
    clients,
    links,
    audit_log,
)
"""The modules with pages, in the order of the navigation."""
PAGES: Final[tuple[PageRoute, ...]] = tuple(page for module in PAGE_MODULES for page in module.PAGES)
CSRF_HEADER: Final = "x-csrf-token"
STATIC_SECONDS: Final = 365 * 86_400

_log = structlog.get_logger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


class Console:
    """The console of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._services = services
        self._limits = limits
        self._sessions = Sessions(services, TokenEndpoint(services, limits))

    def add_to(self, app: FastAPI) -> None:
        """Add the console's routes to ``app``."""
        for page in PAGES:
            app.add_route(f"{PATH}{page.path}", self._page(page), methods=[page.method])
        app.add_route(f"{PATH}/sign-in", _counted(self.sign_in_form))
        app.add_route(f"{PATH}/sign-in", _counted(self.sign_in), methods=["POST"])
        app.add_route(f"{PATH}/sign-out", _counted(self.sign_out), methods=["POST"])
        for name, content in static_files().items():
            app.add_route(f"{PATH}/static/{name}", _static(name, content))

    def _page(self, page: PageRoute) -> Handler:
        """The route of ``page`` for requests with a session; others are sent to the sign-in."""

        async def run(request: Request) -> Response:
            request.scope[OPERATION] = "console"
            session = await self._sessions.find(request)
            if session is None:
                return _to_sign_in(request)
            TENANT.set(session.caller.tenant_id)
            form = Form() if page.method == "GET" else await read_form(request)
            view = View(request, self._services, session, form, PAGES)
            try:
                return await self._answer(page, request, view)
            except PageProblem as ended:
                return view.problem(ended.problem)
            except Refusal as refused:
                return view.problem(problem_of(refused))
            except CONNECTION_FAILURES:
                fragment = "hx-request" in request.headers
                return view.html("unavailable.html" if fragment else "unavailable_page.html", status=503)

        return run

    async def _answer(self, page: PageRoute, request: Request, view: View) -> Response:
        await self._limits.admit(view.caller)
        if page.method != "GET" and not _is_own_form(request, view.form(), view.session):
            return view.html("stale_form.html", status=403)
        if page.operation is not None and not view.may(page.operation):
            return view.html("not_permitted.html", status=403)
        return await page.handler(request, view)

    # --- the session --------------------------------------------------------------------------------------

    async def sign_in_form(self, request: Request) -> Response:
        """The form; a redirect to the console for a browser that is signed in."""
        if await self._sessions.find(request) is not None:
            return RedirectResponse(next_page(request), 303, NO_STORE)
        return _sign_in_page(request, 200, None)

    async def sign_in(self, request: Request) -> Response:
        """Begin a session and redirect to the console, or show the form with the reason of the refusal."""
        if not from_this_page(request):
            return _sign_in_page(request, 403, "This form was not sent by this page.")
        form = await read_form(request)
        response = RedirectResponse(next_page(request), 303, NO_STORE)
        try:
            await self._sessions.begin(
                request, response, form.get("client_id", ""), form.get("client_secret", "")
            )
        except Refusal as refused:
            # The form's values are left out: people paste secrets into the wrong field.
            _log.warning("sign_in_refused", status=refused.kind.status)
            if refused.kind.status == 401:
                return _sign_in_page(request, 401, "These credentials are not accepted.")
            if refused.kind.status == 429:
                return _sign_in_page(request, 429, "Too many tries. Wait a minute.")
            raise
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        if not from_this_page(request):
            return _sign_in_page(request, 403, "This form was not sent by this page.")
        response = RedirectResponse(Addresses(request).url("/sign-in"), 303, NO_STORE)
        await self._sessions.end(request, response)
        return response


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
    """The page of the console that led to the sign-in, else the first one. Other addresses are ignored:
    a link must not lead to another site."""
    first = Addresses(request).url()
    wanted = request.query_params.get("next", "")
    return wanted if wanted.startswith((f"{first}/", f"{first}?")) and "\\" not in wanted else first


def _is_own_form(request: Request, form: Form, session: Session) -> bool:
    token = form.get("csrf") or request.headers.get(CSRF_HEADER, "")
    return from_this_page(request) and hmac.compare_digest(token.encode(), session.csrf.encode())


def _to_sign_in(request: Request) -> Response:
    """Scripts get 401 and the address, browsers the form, which leads back to the page."""
    addresses = Addresses(request)
    if request.headers.get("hx-request") or "text/html" not in request.headers.get("accept", ""):
        return Response(status_code=401, headers=NO_STORE | {"HX-Redirect": addresses.url("/sign-in")})
    here = addresses.site(request.scope["path"])
    if request.url.query:
        here += f"?{request.url.query}"
    wanted = here if request.method == "GET" and here != addresses.url() else None
    return RedirectResponse(addresses.url("/sign-in", next=wanted), 303, NO_STORE)


def _sign_in_page(request: Request, status: int, message: str | None) -> Response:
    values = {"message": message, "next": next_page(request)}
    return templating.html("sign_in.html", request, status=status, values=values)


def _counted(handler: Handler) -> Any:
    async def run(request: Request) -> Response:
        request.scope[OPERATION] = "console"
        return await handler(request)

    return run


def _static(name: str, content: bytes) -> Handler:
    headers = HEADERS | {"Cache-Control": f"public, max-age={STATIC_SECONDS}, immutable"}

    async def run(_request: Request) -> Response:
        return Response(content, 200, headers, media_type_of(name))

    return run
