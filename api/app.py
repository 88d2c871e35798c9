"""The API as a FastAPI application: all operations, their description, and the pages. Every error is a
problem body.
"""

from __future__ import annotations

from typing import Final, NoReturn

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from api.access.admission import Admission
from api.access.oauth import TokenEndpoint
from api.access.quotas import Quotas
from api.access.rate_limits import RateLimits
from api.accounts import entries as ledger_entries
from api.accounts import routes as accounts
from api.audit_log import routes as audit_log
from api.authorization_rules import report as authorization_rule_report
from api.authorization_rules import routes as authorization_rules
from api.backtests import download as backtest_download
from api.backtests import routes as backtests
from api.card_products import routes as card_products
from api.cardholders import changes as cardholder_changes
from api.cardholders import erasure as cardholder_erasure
from api.cardholders import routes as cardholders
from api.cards import cvv2, declared_balance, dry_runs, reveal_sessions
from api.cards import routes as cards
from api.clients import routes as clients
from api.console.late import LateConsole
from api.docs.landing import API_LINKS, add_landing
from api.docs.pages import add_docs, new_application
from api.docs.problem_pages import problem_list, problem_page
from api.events import routes as events
from api.events import types as event_types
from api.exports import routes as exports
from api.exports.content import PATH as EXPORT_CONTENT_PATH
from api.exports.content import download as export_content
from api.http.boundary import Boundary
from api.http.problems import Refusal
from api.http.traces import Traces
from api.kyc import capture
from api.kyc import routes as kyc
from api.links import routes as links
from api.operations.route import OperationRoute
from api.programmes import routes as programmes
from api.services import Services
from api.settlement import routes as settlement
from api.simulations import clearings, follow_ups, loads, spends
from api.simulations.card_states import CardStates
from api.simulations.fast_path import SpendFastPath
from api.stand_in import activity as stand_in_activity
from api.stand_in import outages as stand_in_outages
from api.stand_in import policy as stand_in_policy
from api.transactions import routes as transactions
from api.transfers import routes as transfers
from api.users import routes as users
from api.webhook_endpoints import deliveries as webhook_deliveries
from api.webhook_endpoints import routes as webhook_endpoints

ROUTERS: Final[tuple[APIRouter, ...]] = (
    spends.router,
    follow_ups.router,
    clearings.router,
    loads.router,
    cards.router,
    dry_runs.router,
    cvv2.router,
    reveal_sessions.router,
    declared_balance.router,
    authorization_rules.router,
    authorization_rule_report.router,
    transactions.router,
    exports.router,
    backtests.router,
    backtest_download.router,
    settlement.router,
    accounts.router,
    transfers.router,
    ledger_entries.router,
    events.router,
    event_types.router,
    webhook_endpoints.router,
    webhook_deliveries.router,
    programmes.router,
    stand_in_policy.router,
    stand_in_activity.router,
    stand_in_outages.router,
    card_products.router,
    cardholders.router,
    cardholder_changes.router,
    cardholder_erasure.router,
    kyc.router,
    capture.router,
    clients.router,
    users.router,
    audit_log.router,
    links.router,
)


def operations() -> list[OperationRoute]:
    """Every operation, also those that the description leaves out."""
    routes = [route for router in ROUTERS for route in router.routes]
    return [route for route in routes if isinstance(route, OperationRoute)]


def create_app(services: Services) -> FastAPI:
    """The API of one server."""
    app = new_application()
    limits, cards = RateLimits(services.settings), CardStates(services.card_state_connection)
    quotas = Quotas(services.settings, services.pool, services.clock)
    admission = Admission(services, limits)
    # Dependencies of operations take these from the state of the application.
    app.state.services, app.state.quotas = services, quotas
    app.state.admission, app.state.card_states = admission, cards
    TokenEndpoint(services, limits).add_to(app)
    for router in ROUTERS:
        # Not include_router: it would match the path of each request twice, and again in each router.
        app.router.routes += router.routes
    app.router.routes.append(LateConsole(app, services, limits))
    app.add_route("/problems", problem_list)
    app.add_route("/problems/{slug}", problem_page)
    app.add_route("/healthz", healthz)
    app.add_route(EXPORT_CONTENT_PATH, export_content)
    add_landing(app, "Stanchion", "The API for cards, authorizations, ledger and KYC.", API_LINKS)
    add_docs(app)
    app.add_middleware(SpendFastPath, services=services, quotas=quotas, admission=admission, cards=cards)
    refuse_as_problems(app, services)
    return app


async def healthz(_request: Request) -> Response:
    """200 while this server runs, independent of the state of its dependencies."""
    return Response(b'{"status":"ok"}', media_type="application/json")


def refuse_as_problems(app: FastAPI, services: Services) -> None:
    """Turn the framework's own errors into problem bodies, and count every response."""
    app.add_exception_handler(HTTPException, _refuse)
    settings = services.settings
    app.add_middleware(
        Boundary,
        base_url=settings.docs_base_url,
        counts=services.counts,
        trusted=settings.trusted_proxies,
        root_path=settings.root_path,
    )
    if services.tracer is not None:
        app.add_middleware(Traces, tracer=services.tracer)


async def _refuse(request: Request, refused: Exception) -> NoReturn:
    """The framework's own refusals (404 and 405 of the router), raised on as ours."""
    status = refused.status_code if isinstance(refused, HTTPException) else 500
    if status == 405:
        raise Refusal("method-not-allowed", headers={"Allow": ", ".join(_allowed(request))})
    raise Refusal("not-found", "There is no such path.") if status == 404 else Refusal("internal-error")


def _allowed(request: Request) -> list[str]:
    """All methods of the path: the framework names only those of the first route that matches."""
    methods: set[str] = set()
    routes: list[BaseRoute] = request.app.router.routes
    below = [each for route in routes if isinstance(route, LateConsole) for each in route.routes]
    for route in routes + below:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)
