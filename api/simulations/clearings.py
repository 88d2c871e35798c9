"""Force posts: clearing without prior authorization."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import model_validator
from starlette.responses import Response

from api.database.pool import Connection
from api.http.fields import Country, Id, Mcc, MerchantMoneyInput, MoneyInput, Text100, example
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import Input, broken
from api.operations.call import KeyedCall
from api.operations.route import new_router
from api.simulations.inputs import merchant_amount_of, require_conversion
from api.simulations.spends import AcceptanceView, show_acceptance
from api.simulations.starting import start
from engine.money import HOME_COUNTRY
from engine.simulation import ForcePostRequest

router = new_router("Simulation")

_CARD: Final = "SELECT 1 FROM cards WHERE id = $1::uuid AND tenant_id = $2 AND NOT live"


class ForcePostInput(Input):
    """A sale to be presented without an authorization. The amount is positive."""

    card_id: Id
    amount: MoneyInput
    merchant_amount: MerchantMoneyInput | None = None
    """The amount that the merchant charges in another currency, which the network converts to `amount`."""
    mcc: Mcc
    merchant_name: Annotated[Text100, example("Corner Shop")]
    merchant_country: Country | None = None
    """Left out: `IE` for EUR, `GB` for GBP, `US` for USD."""

    @model_validator(mode="after")
    def _require_positive(self) -> ForcePostInput:
        if self.amount.minor == 0:
            raise broken("range", "The amount must be more than zero.", at="/amount/amount")
        require_conversion(self.amount, self.merchant_amount)
        return self


@router.post(
    "/v1/simulated-clearings", status_code=202, response_model=AcceptanceView, responses=refusals("not-found")
)
async def create_simulated_clearing(given: ForcePostInput, call: KeyedCall) -> Response:
    """Simulate a force post: one presentment over the wire, with no authorization before it.

    Test mode only. It posts in any state of the card and regardless of its controls and balance, and counts
    toward the day's amount; `available` may become negative. The simulation (GET) shows the result. A
    currency other than the card's is refused on the wire.
    """
    tenant_id = call.caller.tenant_id

    async def judge(connection: Connection, id_: str, now_ms: int, fingerprint: bytes) -> ForcePostRequest:
        if not await connection.fetchval(_CARD, given.card_id, tenant_id):
            raise not_found()
        return _request(given, tenant_id, id_, now_ms, fingerprint)

    return await start(call, given.card_id, judge, show_acceptance)


def _request(
    given: ForcePostInput, tenant_id: str, simulation_id: str, now_ms: int, fingerprint: bytes
) -> ForcePostRequest:
    return ForcePostRequest(
        simulation_id=simulation_id,
        accepted_ms=now_ms,
        fingerprint=fingerprint,
        tenant_id=tenant_id,
        card_id=given.card_id,
        amount_minor=given.amount.minor,
        currency=given.amount.currency,
        mcc=given.mcc,
        merchant_name=given.merchant_name,
        merchant_country=given.merchant_country or HOME_COUNTRY[given.amount.currency],
        merchant_amount=merchant_amount_of(given.merchant_amount),
    )
