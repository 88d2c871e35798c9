"""Test funding: a credit to a card's account from its programme's funding source."""

from __future__ import annotations

from typing import Final

from pydantic import model_validator
from starlette.responses import Response

from api.database.pool import fetch_row
from api.http.fields import Id, MoneyInput, MoneyView, ShownAmount
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import Input, View, broken
from api.operations.call import KeyedCall
from api.operations.route import new_router
from api.operations.submission import submit
from engine.commands import Load
from engine.ids import key_of, shard_of

router = new_router("Simulation")

_CARD: Final = "SELECT 1 FROM cards WHERE id = $1::uuid AND tenant_id = $2 AND live = $3"


class LoadInput(Input):
    """A load. The amount is positive."""

    card_id: Id
    amount: MoneyInput

    @model_validator(mode="after")
    def _require_positive(self) -> LoadInput:
        if self.amount.minor == 0:
            raise broken("range", "The amount must be more than zero.", at="/amount/amount")
        return self


class LoadView(View):
    """A posted load; `available` is the balance just after it."""

    entry_id: Id
    account_id: Id
    amount: MoneyView
    available: ShownAmount


@router.post(
    "/v1/simulated-loads",
    status_code=201,
    response_model=LoadView,
    responses=refusals("not-found", "currency-mismatch", "card-not-funded", "balance-limit-exceeded"),
)
async def create_simulated_load(given: LoadInput, call: KeyedCall) -> Response:
    """Load money onto a card.

    Test mode only. Emits `ledger.entry.posted`.
    """
    services, caller = call.services, call.caller
    if await fetch_row(services.pool, _CARD, given.card_id, caller.tenant_id, caller.live) is None:
        raise not_found()
    id_ = services.new_id(shard_of(given.card_id))
    command = Load(
        id=id_,
        command_key=key_of(id_),
        card_id=given.card_id,
        tenant_id=caller.tenant_id,
        live=caller.live,
        amount_minor=given.amount.minor,
        currency=given.amount.currency,
    )
    return await submit(call, command)
