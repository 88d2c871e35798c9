"""Operations on simulated spends. The POST is the hot path of the API: a cached token, and one call to the
simulated network, which checks the card in the statement that stores the spend."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from api.database.pool import fetch_row
from api.http.answers import json_response
from api.http.fields import Id, Instant
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.call import PathId, ReadCall
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.services import Services
from api.simulations.card_states import CardStates, refuse_card
from api.simulations.inputs import SpendInput, merchant_amount_of
from api.simulations.of_transaction import of_transaction
from api.simulations.record import FIND, SELECT, TABLE, Operation, SimulationView, State, show
from engine.ids import shard_of
from engine.instant import to_text
from engine.money import HOME_COUNTRY
from engine.simulation import Acceptance, SpendRequest

router = new_router("Simulation")

PATH: Final = "/v1/simulated-spends"


class AcceptanceView(View):
    """A recorded simulation. Null `stan` and `rrn`: refused before any message was built."""

    simulation_id: Id
    accepted_at: Instant
    stan: str | None
    rrn: str | None
    network_txn_id: str = ""


async def card_states(request: Request) -> CardStates:
    """The batched look-up of this server."""
    shared: CardStates = request.app.state.card_states
    return shared


@router.post(
    PATH,
    status_code=202,
    response_model=AcceptanceView,
    responses=refusals("not-found", "card-not-active"),
)
async def create_simulated_spend(
    given: SpendInput, call: ReadCall, cards: Annotated[CardStates, Depends(card_states)]
) -> Response:
    """Simulate a spend: send one authorization for a card over the ISO 8583 wire.

    Test mode only. Every accepted call is a distinct wire transaction; there is no `Idempotency-Key`. The
    simulation (GET) and the event `authorization.decided` show the decision. A failure of the simulator is
    recorded on the simulation and is not an error of this request.
    """
    services, tenant_id = call.services, call.caller.tenant_id
    request = _request(given, tenant_id, services)
    outcome = await services.network.spend(request)
    if outcome is None:
        await cards.require_active(given.card_id, tenant_id)
        accepted = await services.network.accept(request)
    else:
        accepted = outcome.acceptance or refuse_card(outcome.card_state)
    return json_response(202, show_acceptance(accepted))


class SimulationsQuery(PageQuery):
    """Filters of the list."""

    card_id: Id | None = None
    transaction_id: Id | None = None
    """The spend or the force post that made this transaction, and the follow-ups of the spend."""
    operation: Operation | None = None
    state: State | None = None


@router.get(
    PATH, response_model=page_model("Simulations", SimulationView), responses=refusals("invalid-cursor")
)
async def list_simulated_spends(query: Annotated[SimulationsQuery, Query()], call: ReadCall) -> Response:
    """List simulations, newest first: spends and their follow-ups.

    Test mode only.
    """
    return await page(
        call.services,
        call.caller,
        query,
        table=TABLE,
        select=SELECT,
        filters={},
        candidates=None if query.transaction_id is None else of_transaction(query.transaction_id),
        scanned={
            "r.card_id = ?::uuid": query.card_id,
            "r.operation = ?": query.operation,
            "r.state = ?": query.state,
        },
        show=show,
    )


@router.get(PATH + "/{id}", response_model=SimulationView, responses=refusals("not-found"))
async def get_simulated_spend(simulation_id: PathId, call: ReadCall) -> Response:
    """Get a simulation, its state and its decision.

    Test mode only.
    """
    row = await fetch_row(call.services.pool, FIND, simulation_id, call.caller.tenant_id)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


def show_acceptance(accepted: Acceptance) -> dict[str, Any]:
    """The public representation of an acceptance."""
    body = {
        "simulation_id": accepted.simulation_id,
        "accepted_at": to_text(accepted.accepted_ms),
        "stan": accepted.stan,
        "rrn": accepted.rrn,
    }
    named = accepted.network_txn_id
    return body if named is None else body | {"network_txn_id": named}


def _request(given: SpendInput, tenant_id: str, services: Services) -> SpendRequest:
    cap = given.approved_amount
    return SpendRequest(
        simulation_id=services.new_id(shard_of(given.card_id)),
        tenant_id=tenant_id,
        card_id=given.card_id,
        amount_minor=given.amount.minor,
        currency=given.amount.currency,
        mcc=given.mcc,
        merchant_name=given.merchant_name,
        merchant_country=given.merchant_country or HOME_COUNTRY[given.amount.currency],
        merchant_id=given.merchant_id,
        channel=given.channel,
        accepted_ms=services.clock.now_ms(),
        kind=given.kind,
        entry_mode=given.entry_mode,
        scenario=given.scenario,
        approved_amount_minor=None if cap is None else cap.minor,
        merchant_amount=merchant_amount_of(given.merchant_amount),
        mit=given.mit,
        cvv2=given.cvv2,
        auth_value=given.auth_value,
        threeds_ref=given.threeds_ref,
    )
