"""The console's routes: its pages behind a session, the sign-in, and the static files.

Every form is checked here before its handler runs: its origin, and the token of its session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Router

from api.access.oauth import TokenEndpoint
from api.access.rate_limits import RateLimits
from api.console import templating
from api.console.api_calls import PageProblem
from api.console.pages import (
    account,
    accounts,
    audit_log,
    backtest_form,
    backtests,
    card_acts,
    card_products,
    cardholder_forms,
    cardholders,
    cards,
    clients,
    events,
    exports,
    flips,
    follow_ups,
    home,
    issue,
    kyc,
    ledger,
    links,
    programmes,
    records,
    rule_edits,
    rules,
    search,
    settlement,
    stand_in,
    transaction,
    transactions,
    transfers,
    tries,
    users,
    webhook_forms,
    webhooks,
)
from api.console.sessions import Sessions
from api.console.sign_in import SignIn, read_form
from api.console.templating import HEADERS, NO_STORE, PATH, Addresses, media_type_of, static_files
from api.console.view import Form, PageRoute, View, problem_of
from api.http.faults import CONNECTION_FAILURES
from api.http.problems import Refusal
from api.http.scope import OPERATION, TENANT
from api.services import Services
from api.users.passwords import Passwords

PAGE_MODULES: Final = (
    home,
    transactions,
    transaction,
    follow_ups,
    issue,
    cards,
    card_acts,
    tries,
    cardholder_forms,
    cardholders,
    accounts,
    programmes,
    stand_in,
    card_products,
    rule_edits,
    rules,
    backtest_form,
    backtests,
    flips,
    transfers,
    ledger,
    settlement,
    exports,
    kyc,
    webhook_forms,
    webhooks,
    events,
    clients,
    links,
    audit_log,
    records,
    users,
    search,
    account,
)
"""The modules with pages, in the order of the navigation."""
PAGES: Final[tuple[PageRoute, ...]] = tuple(page for module in PAGE_MODULES for page in module.PAGES)
STATIC_SECONDS: Final = 365 * 86_400

Handler = Callable[[Request], Awaitable[Response]]


class Console:
    """The console of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._services = services
        self._limits = limits
        self._sessions = Sessions(services, TokenEndpoint(services, limits))
        self._passwords = Passwords()
        self._sign_in = SignIn(services, limits, self._sessions, self._passwords)

    def routes(self, app: FastAPI) -> Router:
        """The routes of the console of ``app``."""
        # Pages take these from the state of the application.
        app.state.passwords, app.state.rate_limits = self._passwords, self._limits
        router = Router(redirect_slashes=False)
        for page in PAGES:
            router.add_route(f"{PATH}{page.path}", self._page(page), methods=[page.method])
        self._sign_in.add_to(router)
        router.add_route(f"{PATH}/sign-out", self.sign_out, methods=["POST"])
        for name, content in static_files().items():
            router.add_route(f"{PATH}/static/{name}", _static(name, content))
        return router

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
        if page.method != "GET" and not self._sessions.is_own_form(request, view.form()):
            return view.html("stale_form.html", status=403)
        if page.operation is not None and not view.may(page.operation):
            return view.html("not_permitted.html", status=403)
        return await page.handler(request, view)

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        request.scope[OPERATION] = "console"
        if not self._sessions.is_own_form(request, await read_form(request)):
            return templating.html("stale_sign_out.html", request, status=403, values={})
        response = RedirectResponse(Addresses(request).url("/sign-in"), 303, NO_STORE)
        await self._sessions.end(request, response)
        return response


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


def _static(name: str, content: bytes) -> Handler:
    headers = HEADERS | {"Cache-Control": f"public, max-age={STATIC_SECONDS}, immutable"}

    async def run(_request: Request) -> Response:
        return Response(content, 200, headers, media_type_of(name))

    return run
