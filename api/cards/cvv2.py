"""The CVV2 of a test card, for testers to present. It is computed on each request and never stored, not even
under the idempotency key, because a repetition computes the same digits.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from actors.network.card_secrets import CardSecrets
from api.database.pool import fetch_row
from api.http.answers import json_response
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.call import NO_MEMBERS, Empty, KeyedCall, PathId
from api.operations.route import new_router
from api.simulations.inputs import Cvv2

router = new_router("Cards")

_FIND: Final = """
    SELECT p.sealed, c.exp_year, c.exp_month, c.cvk_generation
    FROM cards c JOIN pans p ON p.card_id = c.id
    WHERE c.id = $1::uuid AND c.tenant_id = $2 AND c.live = $3
"""


class Cvv2View(View):
    """The CVV2 printed on the card."""

    cvv2: Cvv2


@router.post("/v1/cards/{id}/cvv2", response_model=Cvv2View, responses=refusals("not-found"))
async def compute_cvv2(card_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Compute a card's CVV2.

    Test mode only, for the scenario `cvv2_presented`. The value is never stored, so a repetition computes it
    again.
    """
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, card_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    card_secrets = CardSecrets(call.services.vault)
    pan = card_secrets.open(card_id, row["sealed"])
    value = card_secrets.cvv2(pan, row["exp_year"], row["exp_month"], row["cvk_generation"])
    return json_response(200, {"cvv2": value})
