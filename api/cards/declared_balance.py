"""The declared balance: the amount that a card may spend in stand-in.

Administrators declare it. The card's owner stores it, and only the owner consumes it. The public description
leaves it out, because its write path is not published.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from api.database.pool import fetch_row
from api.http.answers import json_response
from api.http.fields import Id, Instant, MoneyInput, MoneyView
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.operations.call import Call, KeyedCall, PathId, ReadCall
from api.operations.route import new_router
from api.operations.submission import submit
from engine.cards.card import DeclaredBalance, declared_balance_view
from engine.commands import DeclareBalance
from engine.ids import key_of, shard_of
from engine.instant import to_ms

router = new_router("Cards")

_FIND: Final = """
    SELECT c.currency, d.balance_minor, d.consumed_minor, d.declared_at
    FROM cards c LEFT JOIN declared_balances d ON d.card_id = c.id
    WHERE c.id = $1::uuid AND c.tenant_id = $2 AND c.live = $3
"""


class DeclaredBalanceInput(Input):
    """A balance to be declared."""

    balance: MoneyInput
    """In the currency of the card."""


class DeclaredBalanceView(View):
    """A declared balance, the part consumed by stand-in approvals, and the remainder."""

    card_id: Id
    balance: MoneyView
    consumed: MoneyView
    remaining: MoneyView
    declared_at: Instant


@router.get(
    "/v1/cards/{id}/declared-balance",
    response_model=DeclaredBalanceView,
    responses=refusals("not-found"),
    include_in_schema=False,
)
async def get_declared_balance(card_id: PathId, call: ReadCall) -> Response:
    """Get a card's declared balance."""
    row = await _card(call, card_id)
    if row["declared_at"] is None:
        raise Refusal("not-found", "No balance has been declared for the card.")
    declared = DeclaredBalance(row["balance_minor"], row["consumed_minor"], to_ms(row["declared_at"]))
    return json_response(200, declared_balance_view(card_id, row["currency"], declared))


@router.put(
    "/v1/cards/{id}/declared-balance",
    response_model=DeclaredBalanceView,
    responses=refusals("not-found", "currency-mismatch"),
    include_in_schema=False,
)
async def declare_balance(card_id: PathId, given: DeclaredBalanceInput, call: KeyedCall) -> Response:
    """Declare the amount that a card may spend in stand-in.

    Replaces an earlier declaration and resets the consumption to zero. It never expires.
    """
    caller, balance = call.caller, given.balance
    await _card(call, card_id)
    id_ = call.services.new_id(shard_of(card_id))
    command = DeclareBalance(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        tenant_id=caller.tenant_id,
        live=caller.live,
        amount_minor=balance.minor,
        currency=balance.currency,
    )
    return await submit(call, command)


async def _card(call: Call, card_id: str) -> Any:
    """The caller's card with its declared balance. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, card_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row
