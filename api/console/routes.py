"""The console's pages. They are read-only; only sign-in and sign-out write, and only sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl

import jinja2
import structlog
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.access.oauth import TokenEndpoint
from api.access.permissions import PERMISSIONS, permit
from api.access.rate_limits import RateLimits
from api.access.tokens import Caller
from api.console import figures
from api.console.sessions import PATH, Sessions, from_this_page
from api.database.pool import connected
from api.http.answers import json_bytes
from api.http.faults import CONNECTION_FAILURES
from api.http.json_body import read_body
from api.http.problems import Refusal
from api.http.scope import OPERATION, TENANT
from api.services import Services
from engine.ids import is_id
from engine.limits import CONSOLE_FORM_FIELDS_MAX

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
}

_log = structlog.get_logger(__name__)

Page = Callable[[Request, Caller], Awaitable[Response]]


class Console:
    """The console of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._services = services
        self._limits = limits
        self._sessions = Sessions(services, TokenEndpoint(services, limits))
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("api.console"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def add_to(self, app: FastAPI) -> None:
        """Add the console's routes to ``app``."""
        app.add_route(PATH, self._page(self.dashboard))
        app.add_route(f"{PATH}/panels", self._page(self.panels))
        app.add_route(f"{PATH}/figures", self._page(self.figures))
        app.add_route(f"{PATH}/cards", self._page(self.card))
        app.add_route(f"{PATH}/audit-log", self._page(self.audit_log))
        app.add_route(f"{PATH}/sign-in", self._counted(self.sign_in), methods=["POST"])
        app.add_route(f"{PATH}/sign-out", self._counted(self.sign_out), methods=["POST"])
        for name, media_type in STATIC.items():
            app.add_route(f"{PATH}/static/{name}", _static(name, media_type))

    # --- pages --------------------------------------------------------------------------------------------

    async def dashboard(self, _request: Request, caller: Caller) -> Response:
        """The page without its panels, which the browser loads separately."""
        return self._html("dashboard.html", caller=caller)

    async def panels(self, _request: Request, caller: Caller) -> Response:
        """The panels, which the browser reloads every two seconds."""
        shown: dict[str, Any] = dict.fromkeys(("decisions", "latencies", "programmes", "endpoints", "newest"))
        now_ms = self._services.clock.now_ms()
        try:
            async with connected(self._services.pool) as connection:
                if _may(caller, "list_transactions"):
                    shown["decisions"] = await figures.decisions(connection, caller, now_ms)
                    shown["newest"] = await figures.transactions(connection, caller)
                if _may(caller, "get_simulated_spend"):
                    shown["latencies"] = await figures.latencies(connection, caller, now_ms)
                if _may(caller, "list_programs") and _may(caller, "list_stip_activity"):
                    shown["programmes"] = await figures.programmes(connection, caller)
                if _may(caller, "list_webhook_deliveries"):
                    shown["endpoints"] = await figures.endpoints(connection, caller)
        except CONNECTION_FAILURES:
            return self._html("unavailable.html", status=503)
        return self._html("panels.html", caller=caller, **shown)

    async def figures(self, _request: Request, caller: Caller) -> Response:
        """The chart's numbers, as JSON."""
        permit(PERMISSIONS["list_transactions"], caller)
        async with connected(self._services.pool) as connection:
            found = await figures.decisions(connection, caller, self._services.clock.now_ms())
        return Response(
            json_bytes(found),
            media_type="application/json",
            headers=HEADERS | {"Cache-Control": "no-store"},
        )

    async def card(self, request: Request, caller: Caller) -> Response:
        """A card's newest transactions, each with the trace of its decision."""
        card_id = request.query_params.get("id", "").strip().lower()
        card, transactions = None, []
        if is_id(card_id) and _may(caller, "get_card") and _may(caller, "list_transactions"):
            async with connected(self._services.pool) as connection:
                card = await figures.card(connection, caller, card_id)
                if card is not None:
                    transactions = await figures.transactions(connection, caller, card_id)
        status = 200 if card is not None else 404
        return self._html("card.html", status=status, caller=caller, card=card, transactions=transactions)

    async def audit_log(self, _request: Request, caller: Caller) -> Response:
        """The newest administrative acts."""
        entries = None
        if _may(caller, "list_audit_log"):
            async with connected(self._services.pool) as connection:
                entries = await figures.audit_log(connection, caller)
        return self._html("audit_log.html", caller=caller, entries=entries)

    # --- the session --------------------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """Begin a session and redirect to the console, or show the form with the reason of the refusal."""
        if not from_this_page(request):
            return self._sign_in_page(403, "This form was not sent by this page.")
        form = await _form(request)
        response = RedirectResponse(PATH, 303, HEADERS)
        try:
            await self._sessions.begin(
                request, response, form.get("client_id", ""), form.get("client_secret", "")
            )
        except Refusal as refused:
            # The form's values are left out: people paste secrets into the wrong field.
            _log.warning("sign_in_refused", status=refused.kind.status)
            if refused.kind.status == 401:
                return self._sign_in_page(401, "These credentials are not accepted.")
            if refused.kind.status == 429:
                return self._sign_in_page(429, "Too many tries. Wait a minute.")
            raise
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        if not from_this_page(request):
            return self._sign_in_page(403, "This form was not sent by this page.")
        response = RedirectResponse(PATH, 303, HEADERS)
        await self._sessions.end(request, response)
        return response

    # --- shared helpers -----------------------------------------------------------------------------------

    def _page(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """``page`` for requests with a session; others get the sign-in form or a redirect to it."""

        async def run(request: Request) -> Response:
            request.scope[OPERATION] = "console"
            caller = await self._sessions.caller(request)
            if caller is None and request.url.path == PATH:
                return self._sign_in_page(200, None)
            if caller is None:
                return Response(status_code=401, headers=HEADERS | {"HX-Redirect": PATH})
            TENANT.set(caller.tenant_id)
            await self._limits.admit(caller)
            return await page(request, caller)

        return run

    def _counted(self, handler: Callable[[Request], Awaitable[Response]]) -> Any:
        async def run(request: Request) -> Response:
            request.scope[OPERATION] = "console"
            return await handler(request)

        return run

    def _sign_in_page(self, status: int, message: str | None) -> Response:
        return self._html("sign_in.html", status=status, message=message)

    def _html(self, name: str, *, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(name).render(values)
        headers = HEADERS | {"Cache-Control": "no-store"}
        return Response(text, status, headers, "text/html; charset=utf-8")


def _may(caller: Caller, operation: str) -> bool:
    try:
        permit(PERMISSIONS[operation], caller)
    except Refusal:
        return False
    return True


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; empty if the body is not a form."""
    raw = await read_body(request)
    try:
        return dict(parse_qsl(raw.decode("ascii"), max_num_fields=CONSOLE_FORM_FIELDS_MAX))
    except ValueError:
        return {}


def _static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("api.console").joinpath("static", name).read_bytes()

    async def run(_request: Request) -> Response:
        return Response(content, 200, HEADERS | {"Cache-Control": "max-age=3600"}, media_type)

    return run
