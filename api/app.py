"""The application: every operation, its description, its problem pages, and nothing that answers without a
problem body.
"""

from __future__ import annotations

from typing import NoReturn

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from api.access import oauth
from api.access.quotas import Quotas
from api.access.rate_limits import RateLimits
from api.access.tokens import Tokens
from api.card_products import routes as card_products
from api.cardholders import changes as cardholder_changes
from api.cardholders import erasure as cardholder_erasure
from api.cardholders import routes as cardholders
from api.cards import cvv2, declared_balance
from api.cards import routes as cards
from api.console.routes import Console
from api.docs.landing import API_LINKS, add_landing
from api.docs.openapi import TOKEN_PATH
from api.docs.pages import add_docs, new_application
from api.docs.problem_pages import problem_list, problem_page
from api.events import routes as events
from api.events import types as event_types
from api.http.boundary import Boundary
from api.http.problems import Refusal
from api.kyc import capture
from api.kyc import routes as kyc
from api.operations.operation import Endpoint, Operation
from api.operations.short_way import ShortWay
from api.programmes import routes as programs
from api.services import Services
from api.simulations import clearings as simulated_clearings
from api.simulations import follow_ups
from api.simulations import loads as simulated_loads
from api.simulations import spends as simulated_spends
from api.stand_in import activity as stip_activity
from api.stand_in import policy as stip_policy
from api.transactions import routes as transactions
from api.webhook_endpoints import deliveries as webhook_deliveries
from api.webhook_endpoints import routes as webhook_endpoints


def create_app(services: Services) -> FastAPI:
    """The API of one server."""
    app = new_application()
    tokens, limits = Tokens(services), RateLimits(services.settings)
    quotas = Quotas(services.settings, services.pool, services.clock)
    operations = operations_of(services)
    # Plain routes: the framework's own reading of parameters would cost 30 µs a request for nothing.
    endpoints: dict[tuple[str, str], Endpoint] = {}
    for operation in operations:
        endpoint = Endpoint(operation, services, tokens, limits, quotas)
        app.add_route(operation.path, endpoint.run, methods=[operation.method])
        if "{" not in operation.path:
            endpoints[operation.method, operation.path] = endpoint
    app.add_route(TOKEN_PATH, oauth.TokenEndpoint(services, limits).run, methods=["POST"])
    Console(services, limits).add_to(app)
    app.add_route("/problems", problem_list)
    app.add_route("/problems/{slug}", problem_page)
    app.add_route("/healthz", healthz)
    add_landing(app, "Stanchion", "The API for cards, authorizations, ledger and KYC.", API_LINKS)
    add_docs(app, operations)
    app.add_middleware(ShortWay, endpoints=endpoints)
    refuse_as_problems(app, services)
    return app


def operations_of(services: Services) -> tuple[Operation, ...]:
    """All operations; the hot one first, because routes are tried in order."""
    families = (
        simulated_spends.family(services),
        follow_ups.family,
        simulated_clearings.family,
        simulated_loads.family,
        cards.family,
        cvv2.family,
        declared_balance.family,
        transactions.family,
        events.family,
        event_types.family,
        webhook_endpoints.family,
        webhook_deliveries.family,
        programs.family,
        stip_policy.family,
        stip_activity.family,
        card_products.family,
        cardholders.family,
        cardholder_changes.family,
        cardholder_erasure.family,
        kyc.family,
        capture.family,
    )
    return tuple(operation for family in families for operation in family.operations)


async def healthz(_request: Request) -> Response:
    """Whether this server runs; says nothing about what it depends on."""
    return Response(b'{"status":"ok"}', media_type="application/json")


def refuse_as_problems(app: FastAPI, services: Services) -> None:
    """Have everything that the framework would answer by itself answered as a problem, and every answer
    counted.
    """
    app.add_exception_handler(HTTPException, _refuse)
    settings = services.settings
    app.add_middleware(
        Boundary,
        base_url=settings.docs_base_url,
        counts=services.counts,
        trusted=settings.trusted_proxies,
    )


async def _refuse(request: Request, refused: Exception) -> NoReturn:
    """The framework's own refusals (404 and 405 of the router), raised on as ours."""
    status = refused.status_code if isinstance(refused, HTTPException) else 500
    if status == 405:
        raise Refusal("method-not-allowed", headers={"Allow": ", ".join(_allowed(request))})
    raise Refusal("not-found", "There is no such path.") if status == 404 else Refusal("internal-error")


def _allowed(request: Request) -> list[str]:
    """All methods of the path: the framework names only those of the first route that matches."""
    methods: set[str] = set()
    for route in request.app.router.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)
